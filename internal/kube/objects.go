package kube

import "time"

// object is an object of Kubernetes that is written, by the names of its API.
type object = map[string]any

// The types below hold what is read of Kubernetes' objects. Their members are those of the API, whose names begin with a small letter.

type metadata struct {
	Name, UID         string
	Annotations       map[string]string
	CreationTimestamp time.Time
	DeletionTimestamp *time.Time
	OwnerReferences   []struct {
		UID        string
		Controller bool
	}
}

// isControlledBy reports whether the object belongs to the one with a UID.
func (m *metadata) isControlledBy(uid string) bool {
	for _, owner := range m.OwnerReferences {
		if owner.Controller {
			return owner.UID == uid
		}
	}
	return false
}

// state is a condition of a Job or a pod, or the state of a container, with the members that it has.
type state struct {
	Type, Status    string
	Reason, Message string
	ExitCode        int32
}

type secret struct{ Metadata metadata }

type job struct {
	Metadata metadata
	Spec     struct {
		Suspend  bool
		Template struct {
			Spec struct {
				ActiveDeadlineSeconds int64
				Containers            []struct {
					Name      string
					Resources struct{ Limits map[string]string }
				}
			}
		}
	}
	Status struct{ Conditions []state }
}

// The types of conditions.
const (
	jobComplete  = "Complete"
	jobFailed    = "Failed"
	podScheduled = "PodScheduled"
)

// end returns the condition with which a Job has ended; ok is false if it has not.
func (j *job) end() (done state, ok bool) {
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == jobComplete || c.Type == jobFailed) {
			return c, true
		}
	}
	return state{}, false
}

type pod struct {
	Metadata metadata
	Spec     struct{ NodeName string }
	Status   struct {
		Reason, Message   string
		Conditions        []state
		ContainerStatuses []struct {
			Name  string
			State containerState
		}
	}
}

// containerState has one member at most.
type containerState struct{ Waiting, Running, Terminated *state }

// container returns the state of the pod's container, beside which a cluster may run others; nothing if there is no pod.
func (p *pod) container() containerState {
	if p != nil {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == containerName {
				return c.State
			}
		}
	}
	return containerState{}
}
