package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of one Append or Close. A producer that has more sends several batches.
const (
	MaxBatchEvents = 1000
	MaxBatchBytes  = 4 << 20 // of JSON
)

// Bounds of names; a notification, which carries a stream id, holds 8,000 bytes.
const (
	maxStreamID = 256
	maxProducer = 512
)

// Batch is a checked batch as JSON, one entry per event. Of an event's meta it holds what the producer gives (TurnID,
// AgentInstanceID); the log adds the rest.
type Batch struct {
	Metas  []agent.EventMeta
	Bodies [][]byte // whole events as JSON, in the field order of [agent.Event]
	Bytes  int      // of all bodies
}

// NewBatch checks the events of an Append. A terminal or reset event, or one that is not JSON, is [agent.CodeInvalid]; a batch
// above the bounds is [agent.CodeOverflow].
func NewBatch(events []agent.Event) (Batch, error) {
	for i := range events {
		if events[i].Terminal() {
			return Batch{}, agent.Errorf(agent.CodeInvalid, opAppend, "event %d is terminal: only Close ends a stream", i)
		}
	}
	return encode(opAppend, events)
}

// NewFinalBatch checks the events of a Close: as [NewBatch], but the last one must be terminal.
func NewFinalBatch(events []agent.Event) (Batch, error) {
	if len(events) == 0 || !events[len(events)-1].Terminal() {
		return Batch{}, agent.Errorf(agent.CodeInvalid, opClose, "the last event must be terminal")
	}
	for i := range events[:len(events)-1] {
		if events[i].Terminal() {
			return Batch{}, agent.Errorf(agent.CodeInvalid, opClose, "event %d of %d is terminal: only the last may be", i, len(events))
		}
	}
	return encode(opClose, events)
}

const (
	opAppend = "append events"
	opClose  = "close stream"
)

func encode(op string, events []agent.Event) (Batch, error) {
	if len(events) > MaxBatchEvents {
		return Batch{}, agent.Errorf(agent.CodeOverflow, op, "%d events in one batch, at most %d", len(events), MaxBatchEvents)
	}
	b := Batch{Metas: make([]agent.EventMeta, len(events)), Bodies: make([][]byte, len(events))}
	for i := range events {
		if events[i].Type == agent.EventReset {
			return Batch{}, agent.Errorf(agent.CodeInvalid, op, "event %d is a reset: only Begin writes those", i)
		}
		e := events[i]
		e.Meta = agent.EventMeta{TurnID: e.Meta.TurnID, AgentInstanceID: e.Meta.AgentInstanceID}
		body, err := Encode(&e)
		if err != nil {
			return Batch{}, agent.Errorf(agent.CodeInvalid, op, "event %d: %w", i, err)
		}
		if b.Bytes += len(body); b.Bytes > MaxBatchBytes {
			return Batch{}, agent.Errorf(agent.CodeOverflow, op, "more than %d bytes in one batch", MaxBatchBytes)
		}
		b.Metas[i], b.Bodies[i] = e.Meta, body
	}
	return b, nil
}

// Readable checks the events of an Append as [NewBatch] does and returns them as a reader of the log gets them: what is not UTF-8 is replaced.
// It skips the encoding if that would change nothing, as for almost every token. size is about their size as JSON, in bytes.
func Readable(events []agent.Event) (readable []agent.Event, size int, err error) {
	plain := len(events) <= MaxBatchEvents
	for i := range events {
		e := &events[i]
		plain = plain && e.Type == agent.EventToken && utf8.ValidString(e.Text) && e.Input == nil && e.Output == nil && e.Route == nil && e.ContentBlocks == nil
		size += metaBytes + len(e.Text)
	}
	if plain && size <= MaxBatchBytes/8 { // JSON takes six bytes for one at worst
		return events, size, nil
	}
	b, err := NewBatch(events)
	if err != nil {
		return nil, 0, err
	}
	readable = make([]agent.Event, len(events))
	for i := range b.Bodies {
		if readable[i], err = Decode(b.Bodies[i]); err != nil {
			return nil, 0, err
		}
	}
	return readable, b.Bytes, nil
}

// Number gives events their places behind the last of a held stream, and returns each as the log keeps it.
func Number(held *agent.HeldStream, events []agent.Event) (bodies []string, err error) {
	b, err := NewFinalBatch(events)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond) // as the database keeps it
	for i := range events {
		events[i].Meta = agent.EventMeta{
			StreamID: held.StreamID, EventIndex: held.LastIndex + int64(i) + 1, TurnID: cmp.Or(b.Metas[i].TurnID, agent.TurnID(held.StreamID)),
			AgentInstanceID: b.Metas[i].AgentInstanceID, Time: now,
		}
		body, err := Encode(&events[i])
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, string(body))
	}
	return bodies, nil
}

// metaBytes is about what the meta of an event takes as JSON.
const metaBytes = 256

// JSON returns the batch as one JSON array.
func (b Batch) JSON() []byte {
	out := make([]byte, 0, b.Bytes+len(b.Bodies)+2)
	out = append(out, '[')
	out = append(out, bytes.Join(b.Bodies, []byte{','})...)
	return append(out, ']')
}

// Encode writes an event as the log keeps it: the bytes of raw JSON fields verbatim (numbers keep their digits), what is not
// UTF-8 replaced by U+FFFD.
func Encode(e *agent.Event) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
	if !utf8.Valid(body) { // a raw field; strings have been cleaned by the encoder
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return body, nil
}

// Decode reads what [Encode] wrote. encoding/json takes two and a half times as long.
func Decode(body []byte) (agent.Event, error) {
	var e agent.Event
	if err := jsonv2.Unmarshal(body, &e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return agent.Event{}, agent.Errorf(agent.CodeInternal, "decode event", "%w", err)
	}
	return e, nil
}

// CheckStream refuses a stream id that is empty, long or not plain text with [agent.CodeInvalid].
func CheckStream(id string) error { return checkName("stream_id", id, maxStreamID) }

// CheckProducer refuses such a producer.
func CheckProducer(name string) error { return checkName("producer", name, maxProducer) }

func checkName(field, s string, limit int) error {
	switch {
	case s == "":
		return agent.Invalid(field, "is empty")
	case len(s) > limit:
		return agent.Invalid(field, "is %d bytes, at most %d", len(s), limit)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return agent.Invalid(field, "is not text")
	}
	return nil
}
