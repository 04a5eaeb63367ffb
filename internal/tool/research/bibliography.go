package research

import (
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
	maxNumbers       = 500
)

const bibliographyDescription = "List the references that the searches of this conversation have found, numbered as they are cited: for the end of a " +
	"report. Formats: markdown (a numbered list), bibtex, csl-json. When the answer has next, it was not complete: call again with from = next."

// The formats.
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

// listing is what is asked for.
type listing struct {
	format  string
	numbers []int // in order; nil: all
	from    int
}

func parseListing(args json.RawMessage) (listing, error) {
	var in struct {
		Format  *string `json:"format"`
		Numbers *[]int  `json:"numbers"`
		From    *int    `json:"from"`
	}
	if err := decode(args, &in); err != nil {
		return listing{}, err
	}
	l := listing{format: formatMarkdown, from: 1}
	format, err := choice("format", in.Format, []string{formatMarkdown, formatBibTeX, formatCSL})
	switch {
	case err != nil:
		return listing{}, err
	case format != "":
		l.format = format
	}
	if in.From != nil {
		if l.from = *in.From; l.from < 1 {
			return listing{}, agent.Invalid("from", "want a number from 1, got %d", l.from)
		}
	}
	if in.Numbers == nil {
		return l, nil
	}
	switch n := len(*in.Numbers); {
	case n == 0:
		return listing{}, agent.Invalid("numbers", "is empty: leave it out for all")
	case n > maxNumbers:
		return listing{}, agent.FieldErrorf(agent.CodeOverflow, "numbers", "has %d entries, at most %d", n, maxNumbers)
	}
	for i, n := range *in.Numbers {
		if n < 1 {
			return listing{}, agent.Invalid(elementName("numbers", i), "want a number from 1, got %d", n)
		}
	}
	l.numbers = slices.Compact(slices.Sorted(slices.Values(*in.Numbers)))
	return l, nil
}

func (b *bibliography) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: bibliographyTool, Description: bibliographyDescription, Parameters: append(json.RawMessage(nil), b.schema...),
		Idempotent: true, InherentlySafe: true,
	}
}

// EffectFree is true: it only reads.
func (*bibliography) EffectFree(json.RawMessage) bool { return true }

// Summarize says in which format.
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
	return l.result(chosen, len(entries), inv.InlineBytes)
}

// entry is a reference with the key under which BibTeX and CSL-JSON cite it.
type entry struct {
	item

	n int
}

// entriesOf decodes references and gives them their keys: a reference keeps its key when others are added.
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

func (l *listing) choose(all []entry) ([]entry, error) {
	if l.numbers != nil {
		for i, n := range l.numbers {
			if n > len(all) {
				return nil, agent.Invalid(elementName("numbers", i), "there is no reference %d: this conversation has %d", n, len(all))
			}
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

// envelope is room for what an answer has besides the references.
const envelope = 256

// result writes as many references as fit into an output that a model is shown, at least one, and says which is the next.
func (l *listing) result(entries []entry, total, inline int) (agent.ToolResult, error) {
	if inline <= 0 {
		inline = defaultInline
	}
	shown, size, next := []entry{}, envelope, 0
	var texts []string
	for i := range entries {
		text, err := l.write(entries, i)
		if err != nil {
			return agent.ToolResult{}, err
		}
		quoted, err := tool.EncodeJSON(text)
		if err != nil {
			return agent.ToolResult{}, err
		}
		if size += len(quoted) + 2; size > inline && i > 0 {
			next = entries[i].n
			break
		}
		shown, texts = append(shown, entries[i]), append(texts, text)
	}
	out := map[string]any{"format": l.format, "total": total, "count": len(shown)}
	if next != 0 {
		out["next"] = next
	}
	var data json.RawMessage
	if l.format == formatCSL {
		items := make([]item, len(shown))
		for i := range shown {
			items[i] = shown[i].item
		}
		var err error
		if data, err = tool.EncodeJSON(items); err != nil {
			return agent.ToolResult{}, err
		}
		out["items"] = data
	} else {
		separator := "\n"
		if l.format == formatBibTeX {
			separator = "\n\n"
		}
		out["bibliography"] = strings.Join(texts, separator)
	}
	raw, err := tool.EncodeJSON(out)
	return agent.ToolResult{Output: raw, Data: data}, err
}

// write writes one reference.
func (l *listing) write(entries []entry, i int) (string, error) {
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
