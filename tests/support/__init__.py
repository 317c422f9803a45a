"""What tests share: `builders` makes the objects, so that a test shows only what matters to it."""
