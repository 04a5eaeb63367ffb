package agent

import (
	"encoding/json"
	"time"
)

// Container is a container to run once for a tool call. Empty fields default to the configuration of the cluster.
type Container struct {
	Tenant  string
	TurnID  TurnID
	Key     string // the idempotency key of the call; repeated requests with a key run one container
	Attempt int64  // of the call, 1 for the first; later attempts start nothing that an earlier one may have started

	Image    string          // empty: the interpreter
	Language string          // of Code
	Code     string          // for the interpreter
	Input    json.RawMessage // an object, which the container reads from a file
	Command  []string
	Args     []string
	Env      map[string]string

	CPU     string        // a Kubernetes quantity: 500m
	Memory  string        // a Kubernetes quantity: 256Mi
	Timeout time.Duration // of the run

	Report func(message string) // progress; may be nil
}

// ContainerResult is the result of a container.
type ContainerResult struct {
	Job      string          // the name of the Kubernetes Job
	Result   json.RawMessage // the JSON at the end of the container's output; nil if there is none
	Logs     string          // other output; only its end if it is long
	LogsCut  bool            // the beginning of Logs is missing
	ExitCode int32
	Failure  *Failure // nil if it succeeded
}

// The states of a [ContainerStatus].
const (
	ContainerRunning   = "running"
	ContainerSucceeded = "succeeded"
	ContainerFailed    = "failed"
)

// ContainerStatus is the state of the container of an earlier call.
type ContainerStatus struct {
	Job    string // from [ContainerResult]
	State  string // [ContainerRunning], [ContainerSucceeded] or [ContainerFailed]
	Detail string // of a running container, such as "pending: Unschedulable"

	Result ContainerResult // of a container that has ended
}

// ContainerManifest is the Kubernetes manifest of a container, for a dry run.
type ContainerManifest struct {
	Job      string          // the name of the Job
	Manifest json.RawMessage // a Kubernetes List of the objects
}
