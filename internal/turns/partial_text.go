package turns

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	// maxPartialText bounds the text that PartialText returns, in bytes.
	maxPartialText = 16 << 10
	// partialTextTimeout bounds how long PartialText reads a stream.
	partialTextTimeout = time.Second
)

// PartialText returns the text that the last producer of a turn has streamed so far, at most 16 KiB. It returns "" if the stream cannot be read within
// a second.
func (ts *Turns) PartialText(ctx context.Context, id agent.TurnID) string {
	ctx, cancel := context.WithTimeout(ctx, partialTextTimeout)
	defer cancel()
	isComplete := false
	ctx = agent.OnWait(ctx, func() {
		isComplete = true
		cancel()
	})
	var text []byte
	producer := ""
	for e, err := range ts.Log.Follow(ctx, string(id), 0) {
		switch {
		case err != nil:
		case e.Type == agent.EventToken:
			if e.Meta.Producer != producer {
				producer, text = e.Meta.Producer, nil
			}
			if len(text) <= maxPartialText {
				text = append(text, e.Text...)
			}
		case e.Type == agent.EventReset && e.Producer == producer:
			text = nil
		case e.Terminal():
			isComplete = true
		}
	}
	if !isComplete {
		return ""
	}
	return clip.Bytes(string(text), maxPartialText)
}
