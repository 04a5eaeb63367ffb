package console_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// hiddenChars are characters that are invisible or change the order of the text around them.
const hiddenChars = "\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u3164\ufe0f\ufeff\U000E0001\U000E0062\U000E007F"

// testDisguisedCalls asks for approvals of calls with hidden characters. All characters are shown, and the arguments are sent back unchanged.
func testDisguisedCalls(t *testing.T, b *browser) {
	h := newServer(t, nil)
	decided := make(chan agent.Decision, 1)
	h.Decided = func(id agent.TurnID, d agent.Decision) error {
		h.Emit(id, event("approval/1", agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{
			ApprovalID: d.ApprovalID, Decision: d.Decision, By: "a\u202eb", Message: "m\u202em", DecidedArgs: d.Args, TurnID: id,
		}}))
		decided <- d
		return nil
	}
	args, err := json.Marshal(map[string]any{
		"iban": "DE\u202e123\u202c", "to": "good\u200b.example", "k" + hiddenChars: hiddenChars, "literal": `\u202e`, "name": "שלום 漢字", "to_whom": "ann" + strings.Repeat(" ", 2000) + "and eve",
		"account": json.RawMessage(`12345678901234567890`),
	})
	require.NoError(t, err)
	p := b.open(t, h.url, "/")
	// requireNoHidden checks the texts, attributes and fields of an element.
	requireNoHidden := func(selector string) {
		t.Helper()
		p.until(`document.querySelector(` + quoted(selector) + `)`)
		require.Empty(t, eval[[]string](p, `(() => {
			const texts = [...document.querySelectorAll(`+quoted(selector+", "+selector+" *")+`)].flatMap((e) =>
				[...e.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data).concat([...e.attributes].map((a) => a.value), e.value ?? []));
			return texts.filter((x) => [...`+quoted(hiddenChars)+`].some((c) => x.includes(c))).map((x) => x.slice(0, 200));
		})()`))
	}
	id := h.askApproval(t, p, 1, agent.Approval{
		ApprovalID: "a1", ToolName: "pay\u202e_me", Description: "Pays\u200b Ann\u2066.", Rule: "r\u00adule", Args: args,
	})
	requireNoHidden(".approval")
	require.Equal(t, `pay\u202e_me`, eval[string](p, `document.querySelector('.approval header .mono').textContent`))
	p.sees(`Pays\u200b Ann\u2066.`)
	shown := eval[string](p, `document.querySelector('.approval code').textContent`)
	for _, want := range []string{
		`"iban": "DE\u202e123\u202c"`, `"to": "good\u200b.example"`, `"literal": "\\u202e"`, `"name": "שלום 漢字"`, `"account": 12345678901234567890`,
		`\u00ad\u034f\u061c\u200b`, `\ufeff\udb40\udc01\udb40\udc62\udb40\udc7f": "`,
	} {
		require.Contains(t, shown, want)
	}
	require.Equal(t, decodeExactly(t, args), decodeExactly(t, json.RawMessage(shown)))
	require.Equal(t, "isolate", eval[string](p, `getComputedStyle(document.querySelector('.approval .hljs-string')).unicodeBidi`), "a string does not change the order of its surroundings")

	require.True(t, eval[bool](p, `[...document.querySelectorAll('.approval pre')].every((e) => e.scrollWidth <= e.clientWidth)`), "nothing is cut off on the right")

	p.press("Edit…")
	p.until(`document.activeElement.matches('.approval textarea')`)
	requireNoHidden(".approval")
	require.Equal(t, shown, eval[string](p, `document.activeElement.value`))
	p.press("Run with these")
	sent := <-decided
	require.Equal(t, agent.DecisionEdit, sent.Decision)
	require.Equal(t, decodeExactly(t, args), decodeExactly(t, sent.Args), "unedited arguments are unchanged")
	p.until(`document.querySelector('.approval.settled.edit')`)
	requireNoHidden(".approval")

	// The call that was approved.
	h.Emit(id, event("tool/c1", agent.Event{Type: agent.EventToolStart, ToolCallID: "c1", ToolName: "pay\u202e_me", Input: args}))
	p.until(`document.querySelector('.card.tool')`)
	p.click(".card.tool summary")
	p.until(`document.querySelector('.card.tool code')`)
	requireNoHidden(".card.tool")

	// The inbox.
	h.Finish(id, agent.TurnCompleted, "Paid.")
	h.askApproval(t, p, 2, agent.Approval{ApprovalID: "a2", ToolName: "pay\u202e_me", Args: args})
	p.goTo("approvals")
	requireNoHidden(".entry .approval")
	require.Equal(t, shown, eval[string](p, `document.querySelector('.entry .approval code').textContent`))
}

// decodeExactly decodes JSON for comparison: strings are decoded, numbers keep their digits.
func decodeExactly(t *testing.T, document json.RawMessage) any {
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
