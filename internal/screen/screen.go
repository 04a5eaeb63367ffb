// Package screen shows the events of a turn to a person at a terminal.
package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/turnstone-run/turnstone/agent"
)

// Screen shows the events of one turn: the answer on out, everything about it on notes. What is shown cannot be taken back, so a
// producer that starts again (reset) is silent for as long as it repeats what stands there already.
type Screen struct {
	out, notes io.Writer
	producers  map[string]*shown
	current    string          // the producer whose text is being shown
	calls      map[string]bool // tool calls announced
	midLine    bool            // out is inside a line
	answered   bool            // the current step has shown text
}

// shown is the text of one producer: what stands on the screen, and what is true.
type shown struct {
	visible string
	text    string
	pieces  []piece
}

// piece remembers where in the text an event begins, so that a reset can cut there.
type piece struct {
	index int64
	start int
}

// New makes a screen: the answer goes to out, everything about it to notes.
func New(out, notes io.Writer) *Screen {
	return &Screen{out: out, notes: notes, producers: map[string]*shown{}, calls: map[string]bool{}}
}

// Show displays the next event.
func (s *Screen) Show(e *agent.Event) {
	switch e.Type {
	case agent.EventToken:
		s.token(e)
	case agent.EventReset:
		s.reset(e)
	case agent.EventContent:
		for i := range e.ContentBlocks {
			s.block(&e.ContentBlocks[i])
		}
	case agent.EventToolStart:
		s.toolStart(e)
	case agent.EventToolProgress:
		s.Note("  … %s", OneLine(e.Text, 200))
	case agent.EventToolEnd:
		s.toolEnd(e)
	case agent.EventApprovalRequested:
		s.approval(e.Approval)
	case agent.EventApprovalResolved:
		if a := e.Approval; a != nil {
			s.Note("✓ %s: %s%s", a.ApprovalID, a.Decision, by(a.By))
		}
	case agent.EventError:
		if e.Error != nil {
			s.Note("! %s: %s", e.Error.Type, e.Error.Message)
		}
	case agent.EventStatus:
		s.status(e)
	case agent.EventInputRequested:
		if a := e.Approval; a != nil {
			s.Note("? %s waits for the result of call %s", a.ToolName, a.CallID)
		}
	case agent.EventUsage, agent.EventRoute, agent.EventInputResolved:
	}
}

func (s *Screen) token(e *agent.Event) {
	p := s.producer(e.Meta.Producer)
	p.pieces = append(p.pieces, piece{e.Meta.EventIndex, len(p.text)})
	p.text += e.Text
	s.catchUp(p)
}

func (s *Screen) producer(name string) *shown {
	if s.current != name {
		s.settle()
		s.freshLine()
		s.current, s.answered = name, false
	}
	p, ok := s.producers[name]
	if !ok {
		p = &shown{}
		s.producers[name] = p
	}
	return p
}

// catchUp makes the screen show a producer's text, writing only what is missing.
func (s *Screen) catchUp(p *shown) {
	switch {
	case strings.HasPrefix(p.visible, p.text):
		return // repeats what stands there
	case strings.HasPrefix(p.text, p.visible):
		s.write(p.text[len(p.visible):])
	default:
		s.Note("↻ the model started again; the text above is void")
		s.write(p.text)
	}
	p.visible = p.text
}

// settle is for the end of a producer: one that started again and ended shorter leaves void text on the screen.
func (s *Screen) settle() {
	p, ok := s.producers[s.current]
	if !ok || len(p.text) >= len(p.visible) {
		return
	}
	s.Note("↻ the model started again; the text above is void")
	s.write(p.text)
	p.visible = p.text
}

func (s *Screen) reset(e *agent.Event) {
	p, ok := s.producers[e.Producer]
	if !ok {
		return
	}
	for i, at := range p.pieces {
		if at.index >= e.FromIndex {
			p.text, p.pieces = p.text[:at.start], p.pieces[:i]
			return
		}
	}
}

func (s *Screen) write(text string) {
	if text == "" {
		return
	}
	text = Printable(text)
	_, _ = io.WriteString(s.out, text)
	s.midLine = !strings.HasSuffix(text, "\n")
	s.answered = true
}

func (s *Screen) freshLine() {
	if s.midLine {
		_, _ = io.WriteString(s.out, "\n")
		s.midLine = false
	}
}

// Note writes a line about the turn, on a line of its own.
func (s *Screen) Note(format string, args ...any) {
	s.freshLine()
	fmt.Fprintln(s.notes, Printable(fmt.Sprintf(format, args...)))
}

func (s *Screen) block(b *agent.Block) {
	switch b.Type {
	case agent.BlockReasoning:
		if b.Reasoning != "" {
			s.Note("~ %s", OneLine(b.Reasoning, 200))
		}
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
		s.Note("[%s %s%s]", b.Type, b.MIMEType, OneLine(" "+b.URL+b.FileID, 200))
	default:
	}
}

// toolStart announces a call once, with the steps of a pipeline one by one.
func (s *Screen) toolStart(e *agent.Event) {
	id := string(e.ToolCallID)
	if s.calls[id] {
		s.Note("→ %s again", e.ToolName)
		return
	}
	s.calls[id] = true
	s.settle()
	var in struct {
		Pipeline []map[string]json.RawMessage `json:"pipeline"`
	}
	if err := json.Unmarshal(e.Input, &in); err != nil || len(in.Pipeline) == 0 {
		s.Note("→ %s %s", e.ToolName, OneLine(string(e.Input), 200))
		return
	}
	s.Note("→ %s", e.ToolName)
	for i, step := range in.Pipeline {
		s.Note("  %d. %s", i+1, stepLine(step))
	}
}

// stepLine shows a step as its name and its other members in the order of their names.
func stepLine(step map[string]json.RawMessage) string {
	var name string
	if json.Unmarshal(step["step"], &name) != nil {
		name = "?"
	}
	rest := make(map[string]json.RawMessage, len(step))
	for k, v := range step {
		if k != "step" {
			rest[k] = v
		}
	}
	if len(rest) == 0 {
		return name
	}
	text, err := json.Marshal(rest) // sorts the names
	if err != nil {
		return name
	}
	return name + " " + OneLine(string(text), 160)
}

func (s *Screen) toolEnd(e *agent.Event) {
	outcome, text := "done", OneLine(string(e.Output), 160)
	if e.Failed {
		outcome = "failed"
	}
	if e.Ref != "" {
		text = e.Ref
	}
	s.Note("← %s %s: %s", e.ToolName, outcome, text)
}

func (s *Screen) approval(a *agent.Approval) {
	if a == nil {
		return
	}
	s.Note("? %s wants to run: %s", a.ToolName, decidable(a.Args))
	s.Note("  starter decide %s %s approve", a.TurnID, a.ApprovalID)
}

// The longest arguments that are shown on one line, and that are shown at all, in characters.
const (
	shortArgs = 400
	longArgs  = 16_000
)

// decidable are arguments in full, as far as that can be: who decides has to see what it is about.
func decidable(args json.RawMessage) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return OneLine(Visible(string(args)), longArgs)
	}
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // it was JSON
	if text := OneLine(Visible(plain.String()), longArgs); len(text) <= shortArgs {
		return text
	}
	plain.Reset()
	encoder.SetIndent("  ", "  ")
	_ = encoder.Encode(v) // as above
	text := []rune(Visible(strings.TrimSpace(plain.String())))
	if more := len(text) - longArgs; more > 0 {
		return string(text[:longArgs]) + fmt.Sprintf("… and %d more characters", more)
	}
	return string(text)
}

func (s *Screen) status(e *agent.Event) {
	switch e.Status {
	case agent.StatusWaiting:
		if e.Reason != "" {
			s.Note("… waiting: %s", e.Reason)
		}
	case agent.StatusCompleted, agent.StatusFailed, agent.StatusCancelled:
		s.end(e)
	case agent.StatusRunning:
		if e.Reason != "" {
			s.Note("… %s", e.Reason)
		}
	}
}

// end closes the answer, giving it whole where it was not streamed, and says what became of the turn.
func (s *Screen) end(e *agent.Event) {
	s.settle()
	r := e.Result
	if r == nil {
		s.Note("turn %s", strings.ToLower(string(e.Status)))
		return
	}
	if !s.answered {
		s.write(r.Output)
	}
	s.freshLine()
	if r.Status != agent.TurnCompleted {
		why := string(r.StopReason)
		if r.Error != nil {
			why = r.Error.Type + ": " + r.Error.Message
		}
		s.Note("turn %s: %s", r.Status, why)
	} else if cut := r.StopReason.CutShort(); cut != "" {
		s.Note("%s", cut)
	}
	line := fmt.Sprintf("— turn %s · session %s · %.1f s · %d tokens", r.TurnID, r.SessionID, float64(r.ExecutionTimeMS)/1000,
		r.Usage.InputTokens+r.Usage.OutputTokens)
	if r.ResultRef != "" {
		line += " · " + r.ResultRef
	}
	s.Note("%s", line)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// OneLine makes text fit one line of at most most characters.
func OneLine(text string, most int) string {
	text = strings.TrimRight(strings.Join(strings.Fields(text), " "), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// Visible writes characters that have no shape of their own, or turn the order of others, the way JSON escapes them: what a person approves has to
// read as it runs. U+202E would otherwise show an account number backwards, and a zero-width space hide a second host in a name.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Printable keeps a model's, a tool's or a document's text from steering the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			return r
		case r == '\r':
			return -1
		default:
			return '\uFFFD'
		}
	}, text)
}
