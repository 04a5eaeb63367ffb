package activities

import (
	"encoding/json"

	"go.temporal.io/sdk/converter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// CheckInputResult is the answer of an activity that checks the input of a workflow; without a refusal the input is right.
type CheckInputResult struct {
	Refusal *agent.Failure `json:"refusal,omitempty"`
}

// checkInput decodes the raw input of a workflow strictly and checks it. example says what a missing one should look like.
func checkInput(raw converter.RawValue, in interface{ Check() error }, example string) (CheckInputResult, error) {
	var err error
	if p := raw.Payload(); p == nil || len(p.GetData()) == 0 {
		err = agent.Invalid("", "the workflow needs one argument, %s", example)
	} else if err = strictjson.Decode(p.GetData(), in); err == nil {
		err = in.Check()
	}
	return CheckInputResult{Refusal: agent.FailureOf(err)}, nil
}

// UpdateInput is the input of an update. It decodes as leniently as every payload of a workflow, and remembers what a strict decoder says
// against it, so that the update's validator can refuse that before history holds anything of it. Validators do not run in replay.
type UpdateInput[T any] struct {
	Value T

	fault error
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *UpdateInput[T]) UnmarshalJSON(data []byte) error {
	u.fault = strictjson.Decode(data, new(T))
	if err := json.Unmarshal(data, &u.Value); u.fault == nil {
		return err
	}
	return nil
}

// Check returns the error of the strict decoder; it names the field.
func (u *UpdateInput[T]) Check() error { return u.fault }
