package console_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// masks are characters that hide, or turn the order of what stands around them.
const masks = "\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u3164\ufe0f\ufeff\U000E0001\U000E0062\U000E007F"

// disguised shows a person, who decides, calls that are not what they look like. All of it is to be read, and nothing of it changes when it is
// sent back.
func disguised(t *testing.T, b *browser) {
	h := build(t, nil)
	decided := make(chan agent.Decision, 1)
	h.Decided = func(id agent.TurnID, d agent.Decision) error {
		h.Emit(id, event("approval/1", agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{
			ApprovalID: d.ApprovalID, Decision: d.Decision, By: "a\u202eb", Message: "m\u202em", DecidedArgs: d.Args, TurnID: id,
		}}))
		decided <- d
		return nil
	}
	args, err := json.Marshal(map[string]any{
		"iban": "DE\u202e123\u202c", "to": "good\u200b.example", "k" + masks: masks, "literal": `\u202e`, "name": "שלום 漢字", "to_whom": "ann" + strings.Repeat(" ", 2000) + "and eve",
		"account": json.RawMessage(`12345678901234567890`),
	})
	require.NoError(t, err)
	p := b.open(t, h.url, "/")
	// Nothing of the card hides, wherever it stands: in what is read, in what is heard, and in what is edited.
	bare := func(selector string) {
		t.Helper()
		p.until(`document.querySelector(` + quoted(selector) + `)`)
		require.Empty(t, eval[[]string](p, `(() => {
			const texts = [...document.querySelectorAll(`+quoted(selector+", "+selector+" *")+`)].flatMap((e) =>
				[...e.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data).concat([...e.attributes].map((a) => a.value), e.value ?? []));
			return texts.filter((x) => [...`+quoted(masks)+`].some((c) => x.includes(c))).map((x) => x.slice(0, 200));
		})()`))
	}
	id := h.asks(t, p, 1, agent.Approval{
		ApprovalID: "a1", ToolName: "pay\u202e_me", Description: "Pays\u200b Ann\u2066.", Rule: "r\u00adule", Args: args,
	})
	bare(".approval")
	require.Equal(t, `pay\u202e_me`, eval[string](p, `document.querySelector('.approval header .mono').textContent`))
	p.sees(`Pays\u200b Ann\u2066.`)
	shown := eval[string](p, `document.querySelector('.approval code').textContent`)
	for _, want := range []string{
		`"iban": "DE\u202e123\u202c"`, `"to": "good\u200b.example"`, `"literal": "\\u202e"`, `"name": "שלום 漢字"`, `"account": 12345678901234567890`,
		`\u00ad\u034f\u061c\u200b`, `\ufeff\udb40\udc01\udb40\udc62\udb40\udc7f": "`,
	} {
		require.Contains(t, shown, want)
	}
	require.Equal(t, exactly(t, args), exactly(t, json.RawMessage(shown)))
	require.Equal(t, "isolate", eval[string](p, `getComputedStyle(document.querySelector('.approval .hljs-string')).unicodeBidi`), "a string turns nothing beside it")

	require.True(t, eval[bool](p, `[...document.querySelectorAll('.approval pre')].every((e) => e.scrollWidth <= e.clientWidth)`), "nothing is out of sight on the right")

	p.press("Edit…")
	p.until(`document.activeElement.matches('.approval textarea')`)
	bare(".approval")
	require.Equal(t, shown, eval[string](p, `document.activeElement.value`))
	p.press("Run with these")
	sent := <-decided
	require.Equal(t, agent.DecisionEdit, sent.Decision)
	require.Equal(t, exactly(t, args), exactly(t, sent.Args), "what was not edited is what was asked")
	p.until(`document.querySelector('.approval.settled.edit')`)
	bare(".approval")

	// The call itself, which runs now.
	h.Emit(id, event("tool/c1", agent.Event{Type: agent.EventToolStart, ToolCallID: "c1", ToolName: "pay\u202e_me", Input: args}))
	p.until(`document.querySelector('.card.tool')`)
	p.click(".card.tool summary")
	p.until(`document.querySelector('.card.tool code')`)
	bare(".card.tool")

	// And in the inbox.
	h.Finish(id, agent.TurnCompleted, "Paid.")
	h.asks(t, p, 2, agent.Approval{ApprovalID: "a2", ToolName: "pay\u202e_me", Args: args})
	p.do(eval0(`location.hash = '#/approvals'`))
	bare(".entry .approval")
	require.Equal(t, shown, eval[string](p, `document.querySelector('.entry .approval code').textContent`))
}

// exactly decodes JSON without loss, so that two documents compare by what they say.
func exactly(t *testing.T, document json.RawMessage) any {
	t.Helper()
	var v map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(document, &v))
	out := map[string]any{}
	for k, x := range v {
		var text string
		if json.Unmarshal(x, &text) == nil {
			out[k] = text
		} else {
			out[k] = string(x)
		}
	}
	return out
}
