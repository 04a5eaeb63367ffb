package main

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// Digest is what WriteDigest is started with, and what it continues as new with: the topics that are left, and what came of the others.
type Digest struct {
	Topics  []string `json:"topics"`
	Queue   string   `json:"queue,omitempty"` // of Turnstone's workers; empty: "turnstone"
	Entries []Entry  `json:"entries,omitempty"`
}

// Entry is what came of a topic: a reference to the text, not the text.
type Entry struct {
	Topic     string `json:"topic"`
	Status    string `json:"status"` // published, rejected, or what the agent failed with
	ResultRef string `json:"result_ref,omitempty"`
	By        string `json:"by,omitempty"` // the editor
}

// maxDrafts is how often an editor may have a text written.
const maxDrafts = 5

// WriteDigest has an agent write about one topic after the other, and an editor decide about each text.
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

// write lets the editor send a text back with a remark: the next turn is one of the same session, so the agent knows what it wrote.
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
		case errors.As(err, &failed): // the digest goes on without it
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
