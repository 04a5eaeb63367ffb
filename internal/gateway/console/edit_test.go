package console_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// analystDocument is the stored document of the agent that [gatewaytest.Runtime] names in its turns.
const analystDocument = `{"description":"Answers with numbers.","kind":"AgentInstance","name":"analyst","node_id":"agent","node_version":"1",` +
	`"parameters":{"system_message":"You are an analyst.\nAnswer in one sentence.\nName your sources."},"tenant":"*"}`

// withAnalyst adds the analyst's document to the catalog, and raises the catalog's revision to that of the document.
func (h *server) withAnalyst() {
	h.catalog.DocumentList = append(h.catalog.DocumentList, agent.Document{
		DocumentKey: agent.DocumentKey{Kind: agent.KindAgent, Tenant: agent.SharedTenant, Name: "analyst"}, Source: agent.SourceAPI, Revision: 5, Body: json.RawMessage(analystDocument),
	})
	for range 4 {
		h.catalog.Change(agent.CatalogEvent{})
	}
}

// replaceText selects the first occurrence of a text in the editor and types another.
func (p *tab) replaceText(old, text string) {
	p.t.Helper()
	p.until(`document.querySelector('[name="text"]')?.value.includes(` + quoted(old) + `)`)
	p.do(runJS(`(() => { const e = document.querySelector('[name="text"]'); const at = e.value.indexOf(` + quoted(old) + `);
		e.focus(); e.setSelectionRange(at, at + ` + quoted(old) + `.length); })()`))
	p.write(text)
}

// fill replaces the text of a field.
func (p *tab) fill(name, text string) {
	p.t.Helper()
	p.until(`document.querySelector('[name="` + name + `"]')`)
	p.do(chromedp.Focus(chromedp.CSS(`[name="`+name+`"]`)), runJS(`document.activeElement.select()`))
	p.write(text)
}

// testEditing changes an agent: invalid text, trying a draft, a conflicting change, and an earlier version.
func testEditing(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.withAnalyst()
	h.runTurn(t, "desk-1", "ann", "How many incidents?", agent.TurnCompleted)
	h.catalog.Refuse = func(r agent.ApplyRequest) error {
		if strings.Contains(string(r.Files[0].Data), "modles") {
			return agent.Faults{{File: r.Files[0].Name, Line: 4, Column: 1, Document: "AgentInstance */analyst", Path: "modles", Message: "unknown field"}}.Err()
		}
		return nil
	}
	p := b.open(t, h.url, "/#/catalog/agents/analyst")
	p.click(".detail .edit")
	p.until(`location.hash === '#/catalog/edit/AgentInstance/analyst?tenant=*'`)
	diff := `[...document.querySelectorAll('.outcome .diff > span')].map((e) => e.textContent.trim()).join('|')`
	unsaved := `!dispatchEvent(new Event('beforeunload', { cancelable: true }))`
	p.sees("Edit the text: what would change is shown here.")
	require.False(t, eval[bool](p, unsaved))

	// Faults have a line and a path. A new line is indented like the line before it.
	p.replaceText("description:", "modles:")
	p.key('\r')
	p.write("- x\ndescription:")
	p.until(`document.querySelector('[name="text"]').value.includes('\nmodles:\n  - x\ndescription:')`)
	p.replaceText("modles:\n  - x\n", "modles: [x]\n")
	p.until(`document.querySelector('.faults b')?.textContent === 'modles' && document.querySelector('.outcome .primary').disabled`)
	p.press("line 4")
	p.until(`document.activeElement.name === 'text' && getSelection().toString() === 'modles: [x]'`)
	p.replaceText("modles: [x]\n", "")
	p.replaceText("Answer in one sentence.", "Answer in a table.")
	p.until(diff + ` === '6 lines as before|parameters:|system_message: |-|You are an analyst.|removed −    Answer in one sentence.|added +    Answer in a table.|Name your sources.'`)

	// The draft is tried with a message. Its answer is shown beside the text, and stays while the text is invalid.
	p.fill("message", "How many now?")
	p.press("Try the draft")
	tried := h.nthTurn(t, 2)
	asked := h.Submitted()[1].Request
	require.Equal(t, []any{"analyst", "How many now?"}, []any{asked.Agent, asked.Message})
	require.Contains(t, asked.Draft.Text, "Answer in a table.")
	h.Say(tried, "Two, in a table.")
	p.until(`document.querySelector('.tried .turn.completed')?.innerText.includes('Two, in a table.') && location.hash.includes('/edit/')`)
	p.fill("message", "And tomorrow?")
	p.replaceText("description:", "modles: description:")
	p.until(`document.querySelector('.faults') && document.querySelector('.tried') && [...document.querySelectorAll('.trial form button')].every((b) => b.disabled)`)
	p.replaceText("modles: description:", "description:")
	p.until(diff + `.includes('added +    Answer in a table.')`)

	// The draft is tried on an earlier turn. The text is kept, and the browser asks before it is lost.
	p.press("Run it with the draft")
	rerun := h.nthTurn(t, 3)
	asked = h.Submitted()[2].Request
	require.Equal(t, []any{agent.TurnID("turn-1"), "", "analyst"}, []any{asked.Rerun.Of, asked.Rerun.Prompt, asked.Draft.Agent})
	h.Say(rerun, "Two.")
	p.until(`location.hash === '#/turns/` + string(rerun) + `' && document.querySelector('.compare')`)
	p.sees("its agent was not applied")
	require.True(t, eval[bool](p, unsaved))
	p.goTo("catalog/agents/analyst")
	p.until(`document.querySelector('.detail .edit')?.textContent === 'Go on with the edit'`)
	p.click(".detail .edit")
	p.until(`document.querySelector('[name="text"]')?.value.includes('Answer in a table.')`)

	// Another user applies a version first.
	p.until(`document.querySelector('.outcome .primary')?.disabled === false`)
	_, err := h.catalog.Apply(t.Context(), agent.ApplyRequest{Files: []agent.ManifestFile{{Name: "x", Data: []byte(strings.Replace(analystDocument, "numbers", "figures", 1))}}, By: "bob"})
	require.NoError(t, err)
	p.fill("comment", "tables are easier to read")
	p.fill("by", "ann")
	p.until(`!document.querySelector('.outcome .primary').disabled`)
	p.press("Apply")
	p.sees("Somebody applied another version meanwhile.")
	p.until(`document.querySelector('[name="text"]').value.includes('Answer in a table.')`)
	p.press("Compare with that version")
	p.until(diff + `.includes('removed −description: Answers with figures.|added +description: Answers with numbers.')`)
	p.do(chromedp.Focus(chromedp.CSS(`[name="text"]`)))
	p.key('s', control)
	p.until(`document.activeElement.name === 'comment' && document.activeElement.value === 'tables are easier to read'`)
	p.key('\r')
	p.sees("Applied as revision 7.")
	require.False(t, eval[bool](p, unsaved))
	applied := h.catalog.Applied()
	last := applied[len(applied)-1]
	require.Equal(t, []any{"ann", "tables are easier to read", int64(6), false}, []any{last.By, last.Comment, last.BaseRevision, last.DryRun})

	// The history has the earlier version. A new conversation can be started with the agent.
	p.until(`document.querySelectorAll('.rows tbody tr').length === 2 && document.querySelector('.rows').innerText.includes('tables are easier to read')`)
	p.do(runJS(`document.querySelectorAll('.rows .rowlink')[1].click()`))
	p.press("Put this version into the editor")
	p.until(diff + `.includes('removed −    Answer in a table.|added +    Answer in one sentence.')`)
	p.press("Discard the edit")
	p.until(`document.querySelector('[name="text"]').value.includes('Answer in a table.')`)
	p.click(`header a[href="#/chat?agent=analyst"]`)
	p.say("hello")
	h.nthTurn(t, 4)
	require.Equal(t, "analyst", h.Submitted()[3].Request.Agent)
}

// testConcurrentFirstApply has two users apply the same new document to an empty catalog.
func testConcurrentFirstApply(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.catalog.Empty, h.catalog.DocumentList = true, nil
	p := b.open(t, h.url, "/#/catalog/edit")
	p.until(`document.querySelector('.outcome .primary')?.disabled === false`)
	_, err := h.catalog.Apply(t.Context(), agent.ApplyRequest{Files: []agent.ManifestFile{{Name: "x", Data: []byte(`{"kind":"AgentInstance","name":"new-agent","description":"bob's"}`)}}, By: "bob"})
	require.NoError(t, err)
	p.press("Apply")
	p.sees("Somebody applied another version meanwhile.")
	p.press("Compare with that version")
	p.until(`document.querySelector('.outcome .diff')?.innerText.includes("bob's")`)
}

// testEditorPermissions opens the editor without the permission to apply, then creates a document with it.
func testEditorPermissions(t *testing.T, b *browser) {
	h := newServer(t, gatewaytest.Credentials{
		"reader": gatewaytest.Caller("default", "bob", "catalog.read", "agents.read"), "writer": gatewaytest.Caller("default", "ann", "catalog.*:AgentInstance/c*", "agents.read"),
	})
	p := b.open(t, h.url, "/")
	as := func(key, path string) {
		p.do(runJS(`sessionStorage.setItem('turnstone.credential', ` + quoted(key) + `); location.hash = ` + quoted(path)))
		p.reload()
		p.until(`document.querySelector('[name="text"], .page .error')`)
	}
	as("reader", "#/catalog/edit/AgentInstance/clerk")
	p.sees("For reading. This credential does not allow catalog.write of AgentInstance/clerk.")
	require.True(t, eval[bool](p, `document.querySelector('[name="text"]').readOnly && !document.querySelector('.outcome')`))
	as("writer", "#/catalog/edit/AgentInstance/clerk")
	p.replaceText("name: clerk", "name: cook")
	p.until(`document.querySelector('.outcome .op')?.innerText.includes('Creates AgentInstance/cook')`)
	require.Equal(t, 0, eval[int](p, `document.querySelectorAll('[name="by"]').length`), "the credential names the user")
	for range 4 {
		h.catalog.Change(agent.CatalogEvent{})
	}
	p.press("Apply")
	p.until(`location.hash === '#/catalog/edit/AgentInstance/cook?tenant=default' && document.querySelector('.note.good')`)
	require.Equal(t, "ann", h.catalog.Applied()[len(h.catalog.Applied())-1].By)
}

// testYAML checks that the editor's YAML decodes to the same document.
func testYAML(t *testing.T, b *browser) {
	h := newServer(t, nil)
	p := b.open(t, h.url, "/")
	document := map[string]any{
		"plain": "a b", "sentence": "It's this, or that; isn't it?", "number": ".5", "word": "No", "empty": "", "list": []any{"x\ny", "- z", []any{1.5, nil, true}, map[string]any{}}, "<<": "*a", "k: #": "#",
		"kept": "a\n\n", "clipped": "a\nb\n", "stripped": "a\n  b\n\n\tc", "spaces": "a \n   \nb\n  ", "indented": "  a\nb", "breaks": "a\u2028b\u0085c\nd", "bell": "a\a\nb\r\nc",
		"emoji": "❤️\n👩‍💻", "end": "a\n\n",
	}
	text, err := json.Marshal(document)
	require.NoError(t, err)
	written := eval[string](p, `import(new URL(`+quoted(h.filesPath(t)+"js/yaml.js")+`, document.baseURI)).then((m) => m.yaml(`+string(text)+`) + '\n')`)
	var read map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(written), &read), written)
	require.Equal(t, document, read, written)
}
