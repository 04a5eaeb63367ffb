package research

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	bibliographyTool = "get_bibliography"
	maxNumbers       = 500 // numbers in the arguments
)

const bibliographyDescription = "List the references that the searches of this conversation have found, numbered as they are cited: for the end of a " +
	"report. Formats: markdown (a numbered list), bibtex, csl-json. When the answer has next, it was not complete: call again with from = next."

// The formats of the bibliography.
const (
	formatMarkdown = "markdown"
	formatBibTeX   = "bibtex"
	formatCSL      = "csl-json"
)

// bibliography is the tool get_bibliography.
type bibliography struct {
	kit    *toolkit
	schema json.RawMessage
}

var (
	_ agent.EffectFree = (*bibliography)(nil)
	_ agent.Summarizer = (*bibliography)(nil)
)

// listing is the checked arguments of get_bibliography.
type listing struct {
	format  string
	numbers []int // sorted; nil: all
	from    int
}

func parseListing(args json.RawMessage) (listing, error) {
	var in struct {
		Format  *string `json:"format"`
		Numbers *[]int  `json:"numbers"`
		From    *int    `json:"from"`
	}
	r := readArguments(args, &in)
	l := listing{format: cmp.Or(r.choice("format", in.Format, formatMarkdown, formatBibTeX, formatCSL), formatMarkdown), from: 1}
	if in.From != nil {
		if l.from = *in.From; l.from < 1 {
			r.fail(agent.Invalid("from", "want a number from 1, got %d", l.from))
		}
	}
	if in.Numbers == nil {
		return l, r.err
	}
	switch n := len(*in.Numbers); {
	case n == 0:
		r.fail(agent.Invalid("numbers", "is empty: leave it out for all"))
	case n > maxNumbers:
		r.fail(agent.FieldErrorf(agent.CodeOverflow, "numbers", "has %d entries, at most %d", n, maxNumbers))
	}
	if i := slices.IndexFunc(*in.Numbers, func(n int) bool { return n < 1 }); i >= 0 {
		r.fail(agent.Invalid(elementName("numbers", i), "want a number from 1, got %d", (*in.Numbers)[i]))
	}
	l.numbers = slices.Compact(slices.Sorted(slices.Values(*in.Numbers)))
	return l, r.err
}

func (b *bibliography) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: bibliographyTool, Description: bibliographyDescription, Parameters: append(json.RawMessage(nil), b.schema...),
		Idempotent: true, InherentlySafe: true,
	}
}

// EffectFree returns true: the tool only reads.
func (*bibliography) EffectFree(json.RawMessage) bool { return true }

// Summarize returns the format.
func (*bibliography) Summarize(args json.RawMessage) string {
	l, err := parseListing(args)
	if err != nil {
		return "invalid arguments"
	}
	return l.format
}

// Call lists the references of the conversation.
func (b *bibliography) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := interrupted(ctx); err != nil {
		return agent.ToolResult{}, err
	}
	l, err := parseListing(call.Args)
	if err != nil {
		return failedResult(bibliographyTool, err)
	}
	refs, err := b.kit.cfg.References.References(ctx, inv.Tenant, inv.SessionID)
	if err != nil {
		return agent.ToolResult{}, fmt.Errorf("list references: %w", err)
	}
	entries, err := entriesOf(refs)
	if err != nil {
		return agent.ToolResult{}, err
	}
	chosen, err := l.choose(entries)
	if err != nil {
		return failedResult(bibliographyTool, err)
	}
	return l.result(chosen, len(entries), tool.InlineBytes(inv))
}

// entry is a reference of the bibliography. The ID of its item is the key by which BibTeX and CSL-JSON cite it.
type entry struct {
	item

	n int // the number of the reference
}

// entriesOf decodes references and sets their keys, which do not change when references are added.
func entriesOf(refs []agent.Reference) ([]entry, error) {
	entries := make([]entry, len(refs))
	taken := map[string]bool{}
	for i := range refs {
		e := &entries[i]
		e.n = refs[i].Number
		if err := json.Unmarshal(refs[i].Item, &e.item); err != nil {
			return nil, agent.Errorf(agent.CodeInternal, "list references", "reference %d: %w", e.n, err)
		}
		e.URL = pageURL(e.URL)
		e.ID, e.Number = uniqueKey(citeKey(&e.item), taken), e.n
		if e.Type == "" {
			e.Type = kindWebPage
		}
	}
	return entries, nil
}

// choose returns the entries that are asked for.
func (l *listing) choose(all []entry) ([]entry, error) {
	for i, n := range l.numbers {
		if n > len(all) {
			return nil, agent.Invalid(elementName("numbers", i), "there is no reference %d: this conversation has %d", n, len(all))
		}
	}
	chosen := []entry{}
	for i := range all {
		if all[i].n >= l.from && (l.numbers == nil || slices.Contains(l.numbers, all[i].n)) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// framing is the number of bytes of an output besides the references.
const framing = 256

// result returns as many references as fit into maxBytes, but at least one, and the number of the next reference if there are more.
func (l *listing) result(entries []entry, total, maxBytes int) (agent.ToolResult, error) {
	texts, err := l.formatEntries(entries, maxBytes)
	if err != nil {
		return agent.ToolResult{}, err
	}
	out := map[string]any{"format": l.format, "total": total, "count": len(texts)}
	if len(texts) < len(entries) {
		out["next"] = entries[len(texts)].n
	}
	var data json.RawMessage
	switch l.format {
	case formatCSL:
		data = json.RawMessage("[" + strings.Join(texts, ",") + "]")
		out["items"] = data
	case formatBibTeX:
		out["bibliography"] = strings.Join(texts, "\n\n")
	default:
		out["bibliography"] = strings.Join(texts, "\n")
	}
	raw, err := tool.EncodeJSON(out)
	return agent.ToolResult{Output: raw, Data: data}, err
}

// formatEntries returns the first entries in the format, as many as fit into maxBytes, but at least one.
func (l *listing) formatEntries(entries []entry, maxBytes int) ([]string, error) {
	var texts []string
	size := framing
	for i := range entries {
		text, err := l.formatEntry(entries, i)
		if err != nil {
			return nil, err
		}
		quoted, err := tool.EncodeJSON(text)
		if err != nil {
			return nil, err
		}
		if size += len(quoted) + 2; size > maxBytes && i > 0 {
			break
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// formatEntry returns entry i in the format.
func (l *listing) formatEntry(entries []entry, i int) (string, error) {
	switch l.format {
	case formatBibTeX:
		return bibTeX(&entries[i]), nil
	case formatCSL:
		raw, err := tool.EncodeJSON(entries[i].item)
		return string(raw), err
	default:
		return markdown(entries, i), nil
	}
}
