package agent

import (
	"encoding/json"
	"time"
)

// Container is work for a container that runs once, for a tool call. Empty fields have the values of the cluster's configuration.
type Container struct {
	Tenant  string
	TurnID  TurnID
	Key     string // the call's idempotency key: one key is one container, however often it is asked for
	Attempt int64  // of the call, 1 for the first: a later one starts nothing that an earlier one may have started

	Image    string          // empty: the interpreter
	Language string          // of Code
	Code     string          // for the interpreter
	Input    json.RawMessage // an object; the container finds it in a file
	Command  []string
	Args     []string
	Env      map[string]string

	CPU     string        // a quantity of Kubernetes: 500m
	Memory  string        // likewise: 256Mi
	Timeout time.Duration // of the run

	Report func(message string) // progress; may be nil
}

// ContainerResult is the end of a container's run.
type ContainerResult struct {
	Job      string          // the name that operators find it by
	Result   json.RawMessage // the JSON that the container ended with; nil: none
	Logs     string          // what it wrote besides, its end only when it is long
	LogsCut  bool            // Logs is the end of more
	ExitCode int32
	Failure  *Failure // set when it did not succeed
}

// The states of a [ContainerStatus].
const (
	ContainerRunning   = "running"
	ContainerSucceeded = "succeeded"
	ContainerFailed    = "failed"
)

// ContainerStatus is the state of the container of an earlier call.
type ContainerStatus struct {
	Job    string // as the call's answer names it
	State  string // [ContainerRunning], [ContainerSucceeded] or [ContainerFailed]
	Detail string // while it runs: what it does, such as "pending: Unschedulable"

	Result ContainerResult // once it has ended
}

// ContainerManifest is the manifest that a cluster would be given for a container.
type ContainerManifest struct {
	Job      string          // the name that the Job would have
	Manifest json.RawMessage // the objects, as a List of Kubernetes
}
