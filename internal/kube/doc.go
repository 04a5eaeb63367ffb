// Package kube runs containers as Jobs on a Kubernetes cluster, for delegate_to_agent.
//
// The name of a Job is made from the tenant and the call's idempotency key, and a Job is started once:
//
//	            create, suspended        input, owned by the Job         suspend: false
//	(no Job) ────────────────────▶ made ────────────────────────▶ ready ──────────────▶ started ──▶ finished
//
// A suspended Job has no pods. An attempt that finds a Job that is not started goes on with the next arrow; one that finds it started
// follows it. So a worker that dies leaves a Job that the call's next attempt follows to its end. A Job that an earlier attempt may have
// made and that is gone is answered as [agent.OutcomeUnknown] and not made again.
//
// The Job and its pods are read every few seconds.
//
// If the turn is cancelled, or the call's time is over, the Job is deleted together with its pods. If the worker stops, or another
// attempt has begun, it stays.
package kube
