package cmdline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// TurnPrinter prints the events of a turn. After a producer starts again (reset), it does not print text that is already printed.
type TurnPrinter struct {
	Program string // program whose command decides an approval; empty: starter

	out, notes io.Writer
	producers  map[string]*producerText
	current    string          // producer whose text is being printed
	calls      map[string]bool // ids of tool calls that have been printed
	midLine    bool            // the last text did not end with a line end
	answered   bool            // the current producer has printed text
}

// producerText is the text of one producer.
type producerText struct {
	printed string
	text    string // text since the last reset
	tokens  []tokenStart
}

// tokenStart is the offset in the text at which a token event begins.
type tokenStart struct {
	eventIndex int64
	offset     int
}

// NewTurnPrinter returns a printer that writes the answer to out and notes about it to notes.
func NewTurnPrinter(out, notes io.Writer) *TurnPrinter {
	return &TurnPrinter{out: out, notes: notes, producers: map[string]*producerText{}, calls: map[string]bool{}}
}

// Show prints the next event.
func (p *TurnPrinter) Show(e *agent.Event) {
	switch e.Type {
	case agent.EventToken:
		p.addToken(e)
	case agent.EventReset:
		p.resetProducer(e)
	case agent.EventContent:
		for i := range e.ContentBlocks {
			p.showBlock(&e.ContentBlocks[i])
		}
	case agent.EventToolStart:
		p.showToolStart(e)
	case agent.EventToolProgress:
		p.Note("  … %s", OneLine(e.Text, 200))
	case agent.EventToolEnd:
		p.showToolEnd(e)
	case agent.EventApprovalRequested:
		p.showApproval(e.Approval)
	case agent.EventApprovalResolved:
		if a := e.Approval; a != nil {
			p.Note("✓ %s: %s%s", a.ApprovalID, a.Decision, formatDecider(a.By))
		}
	case agent.EventError:
		if e.Error != nil {
			p.Note("! %s: %s", e.Error.Type, e.Error.Message)
		}
	case agent.EventStatus:
		p.showStatus(e)
	case agent.EventInputRequested:
		if a := e.Approval; a != nil {
			p.Note("? %s waits for the result of call %s", a.ToolName, a.CallID)
		}
	case agent.EventUsage, agent.EventRoute, agent.EventInputResolved:
	}
}

func (p *TurnPrinter) addToken(e *agent.Event) {
	t := p.startProducer(e.Meta.Producer)
	t.tokens = append(t.tokens, tokenStart{e.Meta.EventIndex, len(t.text)})
	t.text += e.Text
	p.printMissing(t)
}

func (p *TurnPrinter) startProducer(name string) *producerText {
	if p.current != name {
		p.finishProducer()
		p.startLine()
		p.current, p.answered = name, false
	}
	t, ok := p.producers[name]
	if !ok {
		t = &producerText{}
		p.producers[name] = t
	}
	return t
}

// printMissing prints the part of a producer's text that is not printed yet.
func (p *TurnPrinter) printMissing(t *producerText) {
	switch {
	case strings.HasPrefix(t.printed, t.text):
		return // already printed
	case strings.HasPrefix(t.text, t.printed):
		p.write(t.text[len(t.printed):])
	default:
		p.Note("↻ the model started again; the text above is void")
		p.write(t.text)
	}
	t.printed = t.text
}

// finishProducer prints the text of the current producer again if it is shorter than the text before its last reset.
func (p *TurnPrinter) finishProducer() {
	t, ok := p.producers[p.current]
	if !ok || len(t.text) >= len(t.printed) {
		return
	}
	p.Note("↻ the model started again; the text above is void")
	p.write(t.text)
	t.printed = t.text
}

func (p *TurnPrinter) resetProducer(e *agent.Event) {
	t, ok := p.producers[e.Producer]
	if !ok {
		return
	}
	for i, token := range t.tokens {
		if token.eventIndex >= e.FromIndex {
			t.text, t.tokens = t.text[:token.offset], t.tokens[:i]
			return
		}
	}
}

func (p *TurnPrinter) write(text string) {
	if text == "" {
		return
	}
	text = Printable(text)
	_, _ = io.WriteString(p.out, text)
	p.midLine = !strings.HasSuffix(text, "\n")
	p.answered = true
}

func (p *TurnPrinter) startLine() {
	if p.midLine {
		_, _ = io.WriteString(p.out, "\n")
		p.midLine = false
	}
}

// Note writes a line to notes. It ends the current line of the answer first.
func (p *TurnPrinter) Note(format string, args ...any) {
	p.startLine()
	fmt.Fprintln(p.notes, Printable(fmt.Sprintf(format, args...)))
}

func (p *TurnPrinter) showBlock(b *agent.Block) {
	switch b.Type {
	case agent.BlockReasoning:
		if b.Reasoning != "" {
			p.Note("~ %s", OneLine(b.Reasoning, 200))
		}
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
		p.Note("[%s %s%s]", b.Type, b.MIMEType, OneLine(" "+b.URL+b.FileID, 200))
	default:
	}
}

// showToolStart prints a call with its arguments, or with the steps of a pipeline. If the call starts again, it prints only the name.
func (p *TurnPrinter) showToolStart(e *agent.Event) {
	id := string(e.ToolCallID)
	if p.calls[id] {
		p.Note("→ %s again", e.ToolName)
		return
	}
	p.calls[id] = true
	p.finishProducer()
	var in struct {
		Pipeline []map[string]json.RawMessage `json:"pipeline"`
	}
	if err := json.Unmarshal(e.Input, &in); err != nil || len(in.Pipeline) == 0 {
		p.Note("→ %s %s", e.ToolName, OneLine(string(e.Input), 200))
		return
	}
	p.Note("→ %s", e.ToolName)
	for i, step := range in.Pipeline {
		p.Note("  %d. %s", i+1, stepLine(step))
	}
}

// stepLine returns the name of a pipeline step and its other members, sorted by name.
func stepLine(step map[string]json.RawMessage) string {
	var name string
	if json.Unmarshal(step["step"], &name) != nil {
		name = "?"
	}
	members := maps.Clone(step)
	delete(members, "step")
	if len(members) == 0 {
		return name
	}
	text, err := json.Marshal(members) // sorts the names
	if err != nil {
		return name
	}
	return name + " " + OneLine(string(text), 160)
}

func (p *TurnPrinter) showToolEnd(e *agent.Event) {
	outcome, text := "done", OneLine(string(e.Output), 160)
	if e.Failed {
		outcome = "failed"
	}
	if e.Ref != "" {
		text = e.Ref
	}
	p.Note("← %s %s: %s", e.ToolName, outcome, text)
}

func (p *TurnPrinter) showApproval(a *agent.Approval) {
	if a == nil {
		return
	}
	p.Note("? %s wants to run: %s", a.ToolName, formatArgs(a.Args))
	p.Note("  %s decide %s %s approve", cmp.Or(p.Program, "starter"), a.TurnID, a.ApprovalID)
}

func (p *TurnPrinter) showStatus(e *agent.Event) {
	switch e.Status {
	case agent.StatusWaiting:
		if e.Reason != "" {
			p.Note("… waiting: %s", e.Reason)
		}
	case agent.StatusCompleted, agent.StatusFailed, agent.StatusCancelled:
		p.showEnd(e)
	case agent.StatusRunning:
		if e.Reason != "" {
			p.Note("… %s", e.Reason)
		}
	}
}

// showEnd prints the answer if it was not streamed, and how the turn ended.
func (p *TurnPrinter) showEnd(e *agent.Event) {
	p.finishProducer()
	r := e.Result
	if r == nil {
		p.Note("turn %s", strings.ToLower(string(e.Status)))
		return
	}
	if !p.answered {
		p.write(r.Output)
	}
	p.startLine()
	if r.Status != agent.TurnCompleted {
		reason := string(r.StopReason)
		if r.Error != nil {
			reason = r.Error.Type + ": " + r.Error.Message
		}
		p.Note("turn %s: %s", r.Status, reason)
	} else if note := r.StopReason.CutShort(); note != "" {
		p.Note("%s", note)
	}
	line := fmt.Sprintf("— turn %s · session %s · %.1f s · %d tokens", r.TurnID, r.SessionID, float64(r.ExecutionTimeMS)/1000,
		r.Usage.InputTokens+r.Usage.OutputTokens)
	if r.ResultRef != "" {
		line += " · " + r.ResultRef
	}
	p.Note("%s", line)
}

func formatDecider(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}
