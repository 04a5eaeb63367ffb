package pii

import (
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// editor applies a rule to the parts of messages. After an error it changes nothing.
type editor struct {
	rule  *Rule
	found int
	err   error
}

func (e *editor) editText(s string) string {
	if e.err != nil {
		return s
	}
	out, found, err := e.rule.Apply(s)
	e.found += found
	if err != nil {
		e.err = err
		return s
	}
	return out
}

// editBlocks applies the rule to text, reasoning, arguments, outputs and values, but not to names, IDs, URLs, media, signatures and
// extras. It does not change its argument, and returns it if nothing was found.
func (e *editor) editBlocks(blocks []agent.Block) []agent.Block {
	before := e.found
	out := slices.Clone(blocks)
	e.editAdjacent(out, agent.BlockText, func(b *agent.Block) *string { return &b.Text })
	e.editAdjacent(out, agent.BlockReasoning, func(b *agent.Block) *string { return &b.Reasoning })
	for i := range out {
		e.editBlock(&out[i])
	}
	if e.found == before || e.err != nil {
		return blocks
	}
	kept := out[:0]
	for i := range blocks {
		b, was := out[i], &blocks[i]
		if b.Text != was.Text {
			clearPositions(&b)
		}
		if b.Reasoning != was.Reasoning {
			b.Signature = "" // a provider refuses what it did not sign
		}
		if b.Text == "" && was.Text != "" {
			continue // all of it belonged to a value that begins in a block before
		}
		kept = append(kept, b)
	}
	return kept
}

func (e *editor) editBlock(b *agent.Block) {
	switch b.Type {
	case agent.BlockText:
		b.Text = e.editText(b.Text)
		b.Annotations = slices.Clone(b.Annotations)
		for i := range b.Annotations {
			a := &b.Annotations[i]
			a.Title, a.CitedText = e.editText(a.Title), e.editText(a.CitedText)
		}
	case agent.BlockReasoning:
		b.Reasoning = e.editText(b.Reasoning)
	case agent.BlockToolCall, agent.BlockServerToolCall, agent.BlockInvalidToolCall:
		b.Args = e.editJSON(b.Args)
		b.Error = e.editText(b.Error)
	case agent.BlockToolResult, agent.BlockServerToolResult:
		b.Output = e.editJSON(b.Output)
	case agent.BlockNonStandard:
		b.Value = e.editJSON(b.Value)
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
	}
}

// editAdjacent replaces values that run across adjacent blocks of a type, in the block where they begin: models cut their text anywhere, and
// readers see it joined ([agent.Normalize], and the stream).
func (e *editor) editAdjacent(blocks []agent.Block, kind agent.BlockType, field func(*agent.Block) *string) {
	for i := 0; i < len(blocks); i++ {
		first := i
		for i < len(blocks) && blocks[i].Type == kind {
			i++
		}
		if i-first > 1 && e.err == nil {
			e.editAcross(blocks[first:i], field)
		}
	}
}

func (e *editor) editAcross(blocks []agent.Block, field func(*agent.Block) *string) {
	var whole strings.Builder
	for i := range blocks {
		whole.WriteString(*field(&blocks[i]))
	}
	edits := e.rule.edits(whole.String())
	if len(edits) == 0 {
		return
	}
	e.found += len(edits)
	if e.rule.strategy == StrategyBlock {
		e.err = e.rule.deniedError(len(edits))
		return
	}
	start := 0
	for i := range blocks {
		text := field(&blocks[i])
		end := start + len(*text)
		*text = applyEdits(whole.String(), start, end, edits)
		start = end
	}
}

// applyEdits returns text[start:end] with the edits that begin in it and without the parts that other edits cover.
func applyEdits(text string, start, end int, edits []edit) string {
	var b strings.Builder
	for _, e := range edits {
		if e.end <= start || e.start >= end {
			continue
		}
		if e.start >= start {
			b.WriteString(text[start:e.start])
			b.WriteString(e.with)
		}
		start = min(e.end, end)
	}
	b.WriteString(text[start:end])
	return b.String()
}

// clearPositions removes the positions of annotations, which are wrong once the text has changed.
func clearPositions(b *agent.Block) {
	for i := range b.Annotations {
		b.Annotations[i].StartIndex, b.Annotations[i].EndIndex = nil, nil
	}
}
