package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func testCredentials(t *testing.T, b *browser) {
	h := newServer(t, gatewaytest.Credentials{
		"right-key": gatewaytest.Caller("acme", "ann", "*"), "poor-key": gatewaytest.Caller("acme", "bob", "turns.run", "turns.read"),
	})
	h.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, "I know you.") }
	p := b.open(t, h.url, "/")
	p.sees("This server wants to know who you are.")
	enter := func(key string) {
		p.until(`document.activeElement.name === 'credential'`)
		p.do(runJS(`document.activeElement.select()`))
		p.write(key)
		p.key('\r')
	}
	enter("wrong-key")
	p.sees("the credential is not valid")
	enter("Bearer right-key")
	p.say("who am I?")
	p.sees("I know you.")
	first := h.Submitted()[0]
	require.Equal(t, "acme", first.Request.Context.Tenant)
	require.Equal(t, "ann", first.Request.Context.UserID)
	require.Equal(t, []any{"right-key", nil}, eval[[]any](p, `[sessionStorage.getItem('turnstone.credential'), localStorage.getItem('turnstone.credential')]`))
	p.until(`document.querySelector('.meta a[target]')?.href.startsWith('http://127.0.0.1:8233/namespaces/prod/')`)
	p.reload()
	p.sees("I know you.")
	p.press("Credential and tenant")
	p.until(`document.querySelector('dialog').innerText.includes('ann') && document.querySelector('dialog').innerText.includes('acme')`)
	p.press("Forget the credential")
	p.sees("This server wants to know who you are.")
	require.Nil(t, eval[*string](p, `sessionStorage.getItem('turnstone.credential')`))

	// Another credential has other conversations, and an error for what it may not do.
	p.until(`document.querySelector('.gate .check input')`)
	p.click(".gate .check input")
	p.do(chromedp.Focus(chromedp.CSS(`input[name="credential"]`)))
	enter("poor-key")
	p.until(`document.querySelector('.side .empty')`)
	require.Equal(t, "poor-key", eval[string](p, `localStorage.getItem('turnstone.credential')`))
	p.goTo("catalog/documents")
	p.sees("Not allowed: the credential does not allow catalog.read")
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range p.requests {
		require.NotContains(t, address, "-key", "no URL contains a credential")
	}
}

// testHealth checks the colours of the health dot in both colour schemes, and the hints of unhealthy dependencies.
func testHealth(t *testing.T, b *browser) {
	h := newServer(t, nil)
	since := time.Date(2026, 11, 22, 16, 43, 44, 0, time.UTC)
	postgres := gateway.Dependency{Name: "postgres", OK: true, State: gateway.HealthOK, Detail: "3 of 10 connections in use", Took: 14 * time.Millisecond}
	redis := gateway.Dependency{Name: "redis", State: gateway.HealthDegraded, Detail: "dial tcp: refused", Hint: "Jobs wait, everything else runs.", Since: since}
	p := b.open(t, h.url, "/")
	p.until(`document.querySelector('.health.ok')?.innerText.trim() === 'all is well'`)
	requireDot := func(class, words, colour string) {
		t.Helper()
		p.reload()
		p.until(`document.querySelector('.health.` + class + `')?.innerText.trim() === ` + quoted(words))
		for _, dark := range []bool{false, true} {
			p.setDark(dark)
			want := eval[string](p, `(() => { const e = document.body.appendChild(document.createElement('i')); e.style.color = 'var(`+colour+`)';
				const c = getComputedStyle(e).color; e.remove(); return c; })()`)
			require.Equal(t, want, eval[string](p, `getComputedStyle(document.querySelector('.health .dot')).backgroundColor`), "dark: %v", dark)
		}
	}
	requireDot("ok", "all is well", "--good")
	h.setHealth(postgres, redis)
	requireDot("degraded", "redis is degraded", "--warn")
	require.Equal(t, redis.Hint, eval[string](p, `document.querySelector('.health').title`))
	postgres.OK, postgres.State, postgres.Hint, postgres.Since = false, gateway.HealthDown, "Nothing listens at that address.", since
	h.setHealth(redis, postgres)
	requireDot("failing", "postgres is down", "--bad")
	p.click(".health")
	p.until(`document.querySelectorAll('dialog tr.down, dialog tr.degraded').length === 2`)
	p.until(`['Nothing listens at that address.', 'Jobs wait, everything else runs.'].every((hint, i) => document.querySelectorAll('dialog .hint')[1 - i].innerText === hint)`)
	p.until(`/down since 2026-11-2\d.* 3 of 10 connections in use/.test(document.querySelector('dialog tr.down').innerText)`)
	p.until(`document.querySelector('dialog tr.down .num').innerText === '14 ms' && document.querySelector('dialog tr.degraded .num').innerText === ''`)
}

func testRoutes(t *testing.T, b *browser) {
	h := newServer(t, nil)
	p := b.open(t, h.url, "/#/routes")
	p.until(`document.querySelector('form.fields')`)
	p.fill("ui_page", "/reports/sales")
	p.press("Dry run")
	p.sees("clerk answers with gpt-4o")
	p.until(`document.querySelectorAll('.grid tbody tr').length === 2 && document.querySelector('.grid .chosen').innerText.includes('reports')`)
	p.sees("flag beta is not set")
	p.fill("flags", "{beta")
	p.press("Dry run")
	p.sees("flags: no JSON")
	p.fill("flags", `{"beta":true}`)
	p.fill("ui_page", "/nowhere")
	p.press("Dry run")
	p.sees("no rule matches, and there is no default agent")
	require.Empty(t, h.Submitted())
}

func testCatalog(t *testing.T, b *browser) {
	h := newServer(t, nil)
	p := b.open(t, h.url, "/#/catalog")
	p.sees("Books flights. Asks before it pays.")
	p.click(`.listing a[href="#/catalog/agents/analyst"]`)
	p.until(`document.querySelector('.detail')?.innerText.includes('analyst@1') && document.querySelector('.detail').innerText.includes('execute_pipeline')`)
	p.press("models")
	p.click(`.listing a[href^="#/catalog/models/"]`)
	p.until(`document.querySelector('.detail code')?.textContent.includes('input_per_mtok: 2.5') && document.querySelector('.detail code').textContent.includes('note: "<b>yes</b>: no"')`)
	p.press("tools")
	p.click(`.listing a[href^="#/catalog/tools/"]`)
	p.until(`document.querySelector('.detail')?.innerText.includes('Ten primitives over data.')`)
	p.press("documents")
	p.until(`document.querySelectorAll('.listing li').length === 3`)
	p.do(chromedp.Focus(chromedp.CSS(`.listing input[type="search"]`)))
	p.write("clerk")
	p.until(`document.querySelectorAll('.listing li').length === 1`)
	p.click(`.listing a`)
	p.until(`document.querySelector('.detail code')?.textContent.includes('system_message: |-\n    You book flights.\n    Ask before you pay.')`)
}

func testKeyboard(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, "yes") }
	p := b.open(t, h.url, "/")
	for i := range 3 {
		p.say(fmt.Sprint("conversation ", i))
		p.until(`document.querySelector('.turn.completed')`)
		p.key('j', control)
		p.until(`!document.querySelector('.turn') && document.activeElement.id === 'message'`)
	}
	p.until(`document.querySelectorAll('.conversations a').length === 3`)
	p.do(chromedp.Focus(chromedp.CSS(".conversations a")))
	p.key([]rune(kb.ArrowDown)[0])
	p.key([]rune(kb.ArrowDown)[0])
	p.key('\r')
	p.sees("yes")
	p.until(`document.querySelector('.said p').textContent === 'conversation 0'`)
	p.key('k', control)
	p.until(`document.activeElement.id === 'message'`)
	// The focus is visible, and all controls have labels.
	p.key('\t')
	p.until(`document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle === 'solid'`)
	p.requireLabels()
	p.do(chromedp.Focus(chromedp.CSS(".conversations a")))
	p.key([]rune(kb.F2)[0])
	p.until(`document.activeElement.ariaLabel === 'Title' && document.activeElement.selectionEnd > 0`)
	p.write("renamed")
	p.key('\r')
	p.until(`document.activeElement.matches('.conversations a') && document.activeElement.innerText.startsWith('renamed')`)
}

// requireLabels checks that all controls have a name for screen readers.
func (p *tab) requireLabels() {
	p.t.Helper()
	require.Empty(p.t, eval[[]string](p, `[...document.querySelectorAll('button, a, input, select, textarea, summary, dialog, nav, aside, [role="region"]')]
		.filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.matches('nav'))).map((e) => e.outerHTML)`))
}

func testPhone(t *testing.T, b *browser) {
	h := newServer(t, nil)
	h.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, toolEvent(agent.EventToolStart, "c1", agent.Event{Input: []byte(`{"pipeline":"` + strings.Repeat("x", 300) + `"}`)}))
		rt.Say(id, "| a | b | c | d | e |\n|---|---|---|---|---|\n| "+strings.Repeat("wide ", 20)+"| b | c | d | e |\n\n```\n"+strings.Repeat("long", 100)+"\n```\n"+strings.Repeat("w", 300))
	}
	p := b.open(t, h.url, "/")
	p.resize(360, 740, 2)
	p.setDark(true)
	p.sees("What should be done?")
	p.requireFits(360)
	p.say("a long question " + strings.Repeat("abcdefghij", 20))
	p.until(`document.querySelector('.turn.completed table')`)
	p.requireFits(360)
	p.press("Timeline")
	p.until(`document.querySelector('.spans')`)
	p.requireFits(360)
	p.click(`button[aria-label="Menu"]`)
	p.until(`document.querySelector('.side.open')`)
	p.press("Colours: auto")
	p.until(`document.documentElement.dataset.theme === 'light'`)
	require.Equal(t, "rgb(255, 255, 255)", eval[string](p, `getComputedStyle(document.body).backgroundColor`))
	p.press("Colours: light")
	p.press("Colours: dark")
	require.Equal(t, "rgb(23, 25, 27)", eval[string](p, `getComputedStyle(document.body).backgroundColor`)) // the system's scheme, which is dark
	p.key(escape)
	p.until(`!document.querySelector('.side.open')`)
	for _, view := range []string{"approvals", "routes", "catalog/agents/analyst", "catalog/documents"} {
		p.goTo(view)
		p.until(`document.querySelector('.page') && !document.querySelector('.working')`)
		p.requireFits(360)
		p.requireLabels()
	}
}
