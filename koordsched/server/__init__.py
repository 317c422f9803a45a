"""What a scheduler answers over HTTP. `endpoints` decides; who carries the bytes (a socket, or a scenario on the embedded cluster) is not
its business."""
