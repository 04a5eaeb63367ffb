package kube

import "time"

// object is an object of Kubernetes that is written, by the names of its API.
type object = map[string]any

// The types below hold what is read of Kubernetes' objects.

type metadata struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
	OwnerReferences   []struct {
		UID        string `json:"uid"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
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

type secret struct {
	Metadata metadata `json:"metadata"`
}

type job struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Suspend  bool `json:"suspend"`
		Template struct {
			Spec struct {
				ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds"`
				Containers            []struct {
					Name      string `json:"name"`
					Resources struct {
						Limits map[string]string `json:"limits"`
					} `json:"resources"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The types of conditions.
const (
	jobComplete  = "Complete"
	jobFailed    = "Failed"
	podScheduled = "PodScheduled"
)

// end returns the condition with which a Job has ended; ok is false if it has not.
func (j *job) end() (done condition, ok bool) {
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == jobComplete || c.Type == jobFailed) {
			return c, true
		}
	}
	return condition{}, false
}

type podList struct {
	Items []pod `json:"items"`
}

type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Reason            string      `json:"reason"`
		Message           string      `json:"message"`
		Conditions        []condition `json:"conditions"`
		ContainerStatuses []struct {
			Name  string         `json:"name"`
			State containerState `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// containerState has one member at most.
type containerState struct {
	Running *struct{} `json:"running"`
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Terminated *termination `json:"terminated"`
}

type termination struct {
	ExitCode int32  `json:"exitCode"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// state returns the state of the pod's container, beside which a cluster may run others; nothing if there is no pod.
func (p *pod) state() containerState {
	if p != nil {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == containerName {
				return c.State
			}
		}
	}
	return containerState{}
}
