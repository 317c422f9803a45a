"""Every metric of a scheduler with its labels and its HELP line, which dashboards and `promtool` show."""

from __future__ import annotations

from support.stages import Stage

METRICS = {  # name: labels, help
    "koord_scheduler_cache_checks_total": ("result", "Turns of the standing check, by result."),
    "koord_scheduler_cache_drift_total": ("kind", "Facts that differed from the cluster and were mended, by kind."),
    "koord_scheduler_cache_repairs_total": ("", "Events that contradicted what the cache held."),
    "koord_scheduler_handler_errors_total": ("kind", "Calls of event handlers that raised."),
    "koord_scheduler_handler_retries_pending": ("kind", "Objects for which an event handler that raised is still to be called again."),
    "koord_scheduler_malformed_objects_total": ("kind", "Objects that came and cannot be read, or only in part, by kind."),
    "koord_scheduler_relists_total": ("kind", "Lists after the first, each because history was lost."),
    "koord_scheduler_retries_avoided_total": ("reason profile", "Retries that could not have succeeded."),
    "koord_scheduler_status_writes_pending": ("", "Pods whose condition is still to be written."),
    "koord_scheduler_status_writes_refused_total": (
        "",
        "Writes of pod conditions that were refused for a reason that may last; each is tried again later.",
    ),
    "koord_scheduler_watch_age_seconds": ("kind", "Seconds since the API server last said anything of a kind."),
    "koord_scheduler_watch_errors_total": ("kind", "Lists and watches that failed."),
    "koord_scheduler_watch_stalls_total": ("kind", "Watches that were given up because they were silent."),
    "scheduler_batch_attempts_total": ("profile result", "Attempts to use the result of an equal pod."),
    "scheduler_batch_cache_flushed_total": ("profile reason", "Results of equal pods that were dropped."),
    "scheduler_cache_size": ("type", "Nodes, pods and assumed pods in the cache."),
    "scheduler_e2e_scheduling_duration_seconds": (
        "result profile",
        "The same as scheduler_scheduling_attempt_duration_seconds, by its former name.",
    ),
    "scheduler_event_handling_duration_seconds": ("event", "Duration of bringing an event into cache and queue."),
    "scheduler_framework_extension_point_duration_seconds": (
        "extension_point status profile",
        "Latency of all plugins of an extension point.",
    ),
    "scheduler_get_node_hint_duration_seconds": ("hinted profile", "Duration of looking for an equal pod's result."),
    "scheduler_goroutines": ("operation", "Running tasks, by what they do."),
    "scheduler_inflight_events": ("event", "Events kept for pods in flight."),
    "scheduler_scheduling_timeout": (
        "profile",
        "Attempts that took longer than --scheduling-timeout: one at each look of the monitor, and one when they end.",
    ),
    "scheduler_next_pod_delete_from_queue_latency": ("", "Latency of removing a pod from the queue that a plugin named as the next one."),
    "scheduler_pending_pods": ("queue", "Pending pods, by queue."),
    "scheduler_permit_wait_duration_seconds": ("result", "Duration of waiting on Permit."),
    "scheduler_plugin_evaluation_total": (
        "plugin extension_point profile",
        "Questions to a plugin, by extension point: one a pod, at Filter and Score one a node.",
    ),
    "scheduler_plugin_execution_duration_seconds": (
        "plugin extension_point status",
        "Duration of a plugin at an extension point, in one cycle of ten; at Filter and Score for all nodes it is asked about at once.",
    ),
    "scheduler_pod_scheduled_after_flush_total": ("", "Pods bound on the attempt right after the flush of long unschedulable pods."),
    "scheduler_pod_scheduling_attempts": ("", "Attempts it took to bind a pod."),
    "scheduler_pod_scheduling_duration_seconds": (
        "attempts",
        "The same as scheduler_pod_scheduling_sli_duration_seconds, by its former name.",
    ),
    "scheduler_pod_scheduling_evaluated_nodes": ("", "Nodes that were looked at for a pod that got one."),
    "scheduler_pod_scheduling_feasible_nodes": ("", "Nodes that passed all filters for a pod that got one."),
    "scheduler_pod_scheduling_sli_duration_seconds": (
        "attempts",
        "Latency of a pod from its first time in the active queue until it is bound.",
    ),
    "scheduler_preemption_attempts_total": ("", "Attempts to make room for a pod by evicting others."),
    "scheduler_preemption_goroutines_duration_seconds": ("result", "Duration of the tasks that evict pods."),
    "scheduler_preemption_goroutines_execution_total": ("result", "Tasks that evict pods, by result."),
    "scheduler_preemption_victims": ("", "Pods evicted for another pod."),
    "scheduler_queue_incoming_pods_total": ("queue event", "Pods that entered a queue, by event."),
    "scheduler_queueing_hint_execution_duration_seconds": ("plugin event hint", "Duration of a queueing hint."),
    "scheduler_schedule_attempts_total": ("result profile", "Attempts to schedule pods, by result."),
    "scheduler_scheduling_algorithm_duration_seconds": ("", "Latency of the scheduling algorithm."),
    "scheduler_scheduling_attempt_duration_seconds": ("result profile", "Latency of an attempt: scheduling algorithm and binding."),
    "scheduler_store_schedule_results_duration_seconds": ("profile", "Duration of keeping a result for equal pods."),
    "scheduler_unschedulable_pods": ("plugin profile", "Pods that a plugin refused."),
    "scheduler_volume_binder_cache_requests_total": ("operation", "Requests to the cache of volume bindings."),
    "scheduler_volume_scheduling_stage_error_total": ("operation", "Failed stages of volume scheduling."),
}


async def test_labels_and_help_texts_are_those_of_the_table(stage: Stage) -> None:
    async with stage() as world:
        await world.start()
        metrics = world.scheduler.metrics
        lines = [line.split(" ", 3)[2:] for line in metrics.text().decode().splitlines() if line.startswith("# HELP ")]
        labels = {collector.name: " ".join(collector.labels) for collector in metrics.collectors}
    assert {name: (labels[name], text) for name, text in lines} == METRICS
