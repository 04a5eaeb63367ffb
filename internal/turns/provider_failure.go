package turns

import (
	"errors"

	"github.com/turnstone-run/turnstone/agent"
)

// providerError is an error of a model provider with a text for callers. It wraps the provider's error, whose text is only for logs and traces.
type providerError struct{ cause error }

func (e providerError) Error() string {
	switch agent.CodeOf(e.cause) {
	case agent.CodeDenied, agent.CodeUnauthenticated:
		return "the model provider refused this installation's credentials or account (401, 402 or 403), or egress rules refused its address: " +
			"an operator has to look at it"
	case agent.CodeNotFound:
		return "the model provider does not have the model that is configured (404): an operator has to look at it"
	case agent.CodeInvalid:
		return "the model provider refused the request as invalid (4xx)"
	case agent.CodeOverflow:
		return "the request is larger than the model takes"
	case agent.CodeRateLimited:
		return "the model provider limits how much it may be asked at the moment (429)"
	case agent.CodeUnavailable:
		return "the model provider does not answer, or failed (5xx)"
	default:
		return "the call of the model failed"
	}
}

func (e providerError) Unwrap() error { return e.cause }

// modelFailure returns the failure of a model call for callers. Wrong provider credentials and a missing model are reported as unavailable and not
// retryable, instead of as denied or not_found, because the caller cannot fix them.
func modelFailure(err error) *agent.Failure {
	f := agent.FailureOf(err)
	if p, ok := errors.AsType[providerError](err); ok {
		f.Message, f.Field, f.Faults = p.Error(), "", nil
		switch agent.Code(f.Type) {
		case agent.CodeDenied, agent.CodeUnauthenticated, agent.CodeNotFound:
			f.Type = string(agent.CodeUnavailable)
		default:
		}
	}
	return f
}
