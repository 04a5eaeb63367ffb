package main

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// Digest is the input of WriteDigest and its result: the remaining topics, and the entries for the others.
type Digest struct {
	Topics  []string `json:"topics"`
	Queue   string   `json:"queue,omitempty"` // of Turnstone's workers; empty: "turnstone"
	Entries []Entry  `json:"entries,omitempty"`
}

// Entry is the outcome for a topic. It has a reference to the text, not the text.
type Entry struct {
	Topic     string `json:"topic"`
	Status    string `json:"status"` // published, rejected, or the type of the agent's error
	ResultRef string `json:"result_ref,omitempty"`
	By        string `json:"by,omitempty"` // the editor
}

// maxDrafts is the largest number of drafts of a text.
const maxDrafts = 5

// WriteDigest has an agent write about one topic after the other, and asks an editor about each text.
func WriteDigest(ctx workflow.Context, in Digest) (Digest, error) {
	p, err := workflows.NewProcess(ctx, workflows.ProcessConfig{TaskQueue: in.Queue})
	if err != nil {
		return in, err
	}
	for len(in.Topics) > 0 {
		entry, err := write(ctx, p, in.Topics[0])
		if err != nil {
			return in, err
		}
		in.Topics, in.Entries = in.Topics[1:], append(in.Entries, entry)
		if len(in.Topics) > 0 && p.Due(ctx, 2000) {
			return in, p.ContinueAsNew(ctx, WriteDigest, in)
		}
	}
	p.Settle(ctx)
	return in, nil
}

// write has an agent write about a topic until the editor accepts or rejects the text. The next draft is a turn of the same session, so that the agent
// knows what it wrote before.
func write(ctx workflow.Context, p *workflows.Process, topic string) (Entry, error) {
	entry := Entry{Topic: topic, Status: "rejected"}
	request := agent.TurnRequest{Message: "Write three sentences about " + topic + "."}
	for range maxDrafts {
		draft, err := p.RunAgent(ctx, workflows.Step{
			Name: "draft", Request: request, Stream: true, Timeout: 10 * time.Minute,
			Retry: workflows.Retry{Attempts: 3, First: 10 * time.Second},
		})
		var failed *workflows.StepError
		switch {
		case errors.As(err, &failed): // the digest continues with the next topic
			entry.Status = failed.Type
			return entry, nil
		case err != nil:
			return entry, err
		}
		answer, err := p.Ask(ctx, workflows.Question{
			Name: "publish", Prompt: "Publish this on " + topic + "?\n\n" + draft.Output, Options: []string{"yes", "no", "again"},
			Timeout: 72 * time.Hour, OnTimeout: "no",
		})
		if err != nil {
			return entry, err
		}
		entry.ResultRef, entry.By = draft.ResultRef, answer.By
		switch answer.Choice {
		case "yes":
			entry.Status = "published"
			return entry, nil
		case "no":
			return entry, nil
		}
		request = agent.TurnRequest{SessionID: draft.SessionID, Message: answer.Message}
	}
	return entry, nil
}
