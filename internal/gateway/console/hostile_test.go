package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// attacks are texts that try to call canary(), to load something, or to imitate elements of the page.
func attacks() []string {
	return []string{
		`<script>canary(1)</script>`,
		`<img src=x onerror=canary(2)>`,
		`<img src="https://evil.example/track.png">`,
		`![track](https://evil.example/track.png)`,
		`![x](data:image/svg+xml,<svg/onload=canary(3)>)`,
		`[click](javascript:canary(4))`,
		`[click](JaVaScRiPt:canary(5))`,
		`[click](java&#x73;cript:canary(6))`,
		"[click](java\tscript:canary(7))",
		`[click](data:text/html,<script>canary(8)</script>)`,
		`[click](vbscript:canary(9))`,
		`[click]( javascript:canary(10) "title")`,
		`<javascript:canary(11)>`,
		`<a href="javascript:canary(12)">x</a>`,
		`[x]: javascript:canary(13)` + "\n\n[x]",
		`<svg onload=canary(14)><animate onbegin=canary(14) attributeName=x dur=1s></svg>`,
		`<svg><script>canary(15)</script></svg>`,
		`<svg><use href="https://evil.example/x.svg#x"></use></svg>`,
		`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=canary(16)&gt;">`,
		`<form action="https://evil.example/"><input name=x><button>Send</button></form>`,
		`<iframe src="javascript:canary(17)"></iframe><iframe srcdoc="<script>parent.canary(17)</script>"></iframe>`,
		`<object data="https://evil.example/x"></object><embed src="https://evil.example/x">`,
		`<style>body{background:url(https://evil.example/css)}</style>`,
		`<div style="position:fixed;inset:0;background:url(https://evil.example/style)" onclick=canary(18) onmouseover=canary(18)>x</div>`,
		`<link rel=stylesheet href=https://evil.example/x.css><base href=https://evil.example/><meta http-equiv=refresh content="0;url=https://evil.example/">`,
		`<video src=https://evil.example/v><source onerror=canary(19)></video><audio src=x onerror=canary(19)>`,
		`<details open ontoggle=canary(20)>x</details><input autofocus onfocus=canary(20)>`,
		`<noscript><p title="</noscript><img src=x onerror=canary(21)>">`,
		`<template><script>canary(22)</script></template><xmp><p title="</xmp><img src=x onerror=canary(22)>">`,
		`<form><math><mtext></form><form><mglyph><style></math><img src onerror=canary(23)>`,
		`<svg></p><style><a id="</style><img src=1 onerror=canary(24)>">`,
		"<listing>&lt;img onerror=\"canary(25);//\" src=x&gt;<t t></listing>",
		"```html\n<img src=x onerror=canary(26)>\n</code></pre><img src=x onerror=canary(26)>\n```",
		"```\"><img/src=x/onerror=canary(27)>\ncode\n```",
		"`<img src=x onerror=canary(28)>`",
		"```js onload=canary(29)\nlet a = '</span><img src=x onerror=canary(29)>'\n```",
		`| <img src=x onerror=canary(30)> | [x](javascript:canary(30)) |` + "\n|---|---|\n| <script>canary(30)</script> | b |",
		`<http://evil.example/"onmouseover="canary(31)>`,
		`[x](https://evil.example/"onmouseover="canary(32))`,
		`[a](<https://evil.example/> 'x" onmouseover="canary(33)')`,
		`![x" onerror="canary(34)](x)`,
		`<a id=app>x</a><img name=body><form id=documentElement><input name=querySelector></form><a name=DOMPurify>`,
		`&lt;img src=x onerror=canary(35)&gt; &#60;script&#62;canary(35)&#60;/script&#62;`,
		"\u003c\u0073cript>canary(36)</script> \u2028\u2029\u0000<img src=x onerror=canary(36)>",
		`<p class="app gate card" id="message" role="alert" aria-live="assertive" data-decision="approve">Approve</p>`,
		`# <img src=x onerror=canary(37)>` + "\n\n> <script>canary(37)</script>\n\n- [ ] <img src=x onerror=canary(37)>",
		`[![x](javascript:canary(38))](javascript:canary(38))`,
		`<![CDATA[<img src=x onerror=canary(39)>]]><?xml x="><img src=x onerror=canary(39)>"?>`,
		`\<img src=x onerror=canary(40)\>`,
		`https://evil.example/<img/src=x/onerror=canary(41)> www.evil.example`,
		strings.Repeat("> ", 3000) + `<img src=x onerror=canary(42)>`,
		strings.Repeat("* ", 3000) + `[x](javascript:canary(43))`,
		strings.Repeat("[", 5000) + `x](javascript:canary(44))`,
		strings.Repeat("<div>", 3000) + `<img src=x onerror=canary(45)>`,
	}
}

// attack emits events of every kind that contain a text.
func attack(rt *gatewaytest.Runtime, id agent.TurnID, n int, text string) {
	name := func(what string) string { return fmt.Sprint(what, "/", n) }
	short := text[:min(len(text), 300)]
	for _, piece := range strings.SplitAfter(short, "") { // by characters
		rt.Emit(id, token(name("model"), piece))
	}
	call := agent.CallID(name("call"))
	rt.Emit(id, token(name("model"), text[len(short):]), token(name("whole"), text),
		event(name("model"), agent.Event{Type: agent.EventUsage, Model: short, Usage: &agent.Usage{InputTokens: 1}}),
		event(name("model"), agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{
			{Type: agent.BlockReasoning, Reasoning: text},
			{Type: agent.BlockImage, URL: text},
			{Type: agent.BlockNonStandard, Value: []byte(quoted(text))},
			{Type: agent.BlockText, Annotations: []agent.Annotation{{Type: "citation", Title: text, URL: text, CitedText: text}}},
		}}),
		toolEvent(agent.EventToolStart, call, agent.Event{Input: []byte(quoted(text)), SourceNodeName: text}),
		toolEvent(agent.EventToolProgress, call, agent.Event{Text: text}),
		toolEvent(agent.EventToolEnd, call, agent.Event{Output: []byte(quoted(text)), Failed: true}),
		event(name("approval"), agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{
			ApprovalID: name("approval"), TurnID: id, ToolName: short, Args: []byte(quoted(text)), Description: text, Rule: text, By: text,
		}}), event("x", agent.Event{Type: agent.EventError, Error: &agent.Failure{Type: "x", Message: text}}))
}

func testHostileText(t *testing.T, b *browser) {
	all := attacks()
	const group = 9
	h := newServer(t, nil)
	h.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		var from int
		_, _ = fmt.Sscan(r.Message, &from)
		rt.Emit(id, gatewaytest.Status(agent.StatusRunning))
		for n := from; n < min(from+group, len(all)); n++ {
			attack(rt, id, n, all[n])
			h.addMessages(id, agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text(all[n])}})
		}
		rt.Finish(id, agent.TurnFailed, all[from])
	}
	p := b.open(t, h.url, "/")
	for from := 0; from < len(all); from += group {
		p.say(fmt.Sprint(from))
		p.until(fmt.Sprintf(`document.querySelectorAll('.turn.failed').length === %d`, from/group+1))
		p.until(fmt.Sprintf(`document.querySelectorAll('.turn:last-child .answer > .prose').length === %d`, 2*min(group, len(all)-from)))
		p.do(runJS(`for (const e of document.querySelectorAll('.turn:last-child details')) e.open = true`))
		p.until(`[...document.querySelectorAll('.turn:last-child .prose')].every((e) => e.textContent.trim())`)
		p.requireHarmless(fmt.Sprint("attacks from ", from))
	}
	// Neither mouse events nor the transcript run anything.
	p.do(runJS(`for (const e of document.querySelectorAll('.answer *')) { e.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
		if (e.matches('a')) { e.removeAttribute('target'); e.addEventListener('click', (x) => e.protocol === 'javascript:' || x.preventDefault()); e.click(); } }`))
	p.requireHarmless("clicks")
	p.reload()
	p.until(fmt.Sprintf(`document.querySelectorAll('.turn.completed, .turn.failed').length === %d`, (len(all)+group-1)/group))
	p.until(`[...document.querySelectorAll('.prose')].every((e) => e.textContent.trim())`)
	p.requireHarmless("the transcript")

	// A turn's page and the lists show the same texts.
	for _, path := range []string{"turns/" + string(h.firstTurn(t)), "turns"} {
		p.goTo(path)
		p.until(`document.querySelector('.page') && !document.querySelector('.page .working') && document.querySelector('.page .step, .page .rowlink')`)
		p.do(runJS(`for (const e of document.querySelectorAll('.page details')) e.open = true`))
		require.Empty(t, eval[[]string](p, `__bad.concat(__violations)`), path)
		require.Empty(t, eval[[]string](p, `[...document.querySelectorAll('.page :is(script, style, iframe, object, embed, img, video, form:not(.filters)), .page a')]
			.filter((e) => e.localName !== 'a' || !/^https?:$/.test(e.protocol)).map((e) => e.outerHTML.slice(0, 300))`), path)
	}
}

// requireHarmless checks that hostile text ran nothing and made no forbidden element.
func (p *tab) requireHarmless(after string) {
	p.t.Helper()
	require.Empty(p.t, eval[[]string](p, `__bad`), after)
	require.Empty(p.t, eval[[]string](p, `__violations`), "violations of the policy after %s", after)
	require.Empty(p.t, eval[[]string](p, `[...document.querySelectorAll('.turn *')].filter((e) =>
		['script', 'style', 'iframe', 'object', 'embed', 'link', 'meta', 'base', 'video', 'math', 'use', 'animate', 'template', 'noscript', 'img'].includes(e.localName) ||
		(e.localName === 'form' && !e.matches('.decide')) ||
		(e.namespaceURI.includes('svg') && !e.closest('svg.icon')) ||
		[...e.attributes].some((a) => /^on/i.test(a.name) || a.name === 'style' || a.name === 'srcdoc' || /^\s*(javascript|data|vbscript):/i.test(a.value) && ['href', 'src', 'action'].includes(a.name)) ||
		(e.id && e.closest('.prose')) || (e.localName === 'a' && e.closest('.prose') && !/^(https?|mailto):$/.test(e.protocol))).map((e) => e.outerHTML.slice(0, 300))`), after)
	require.True(p.t, eval[bool](p, `document.getElementById('app').parentElement === document.body && document.getElementById('message').localName === 'textarea'`))
	p.requireLocalRequests()
}

// testLongText checks that a text of 100,000 words does not freeze the page, and is sanitised only a few times.
func testLongText(t *testing.T, b *browser) {
	h := newServer(t, nil)
	p := b.open(t, h.url, "/")
	p.do(runJS(`window.__read = 0; window.__frames = 0; window.__ticks = true;
		(function tick() { __frames++; if (__ticks) requestAnimationFrame(tick); })();
		const was = DOMPurify.sanitize; DOMPurify.sanitize = (text, ...more) => { __read += text.length; return was.call(DOMPurify, text, ...more); };`))
	p.say("write a book")
	id := h.firstTurn(t)
	paragraph := strings.TrimSpace(strings.Repeat("word *stress* `code` and [a link](https://a.example) ten ", 12)) + "\n\n"
	words, length := 0, 0
	for words < 100_000 {
		var batch []agent.Event
		for range 20 {
			text := paragraph
			if words%7 == 0 {
				text = "## Chapter\n\n```go\n" + strings.Repeat("x := 1\n", 40) + "```\n\n- " + paragraph
			}
			batch = append(batch, token("model/1", text[:len(text)/2]), token("model/1", text[len(text)/2:]))
			words += len(strings.Fields(text))
			length += len(text)
		}
		h.Emit(id, batch...)
	}
	h.Finish(id, agent.TurnCompleted, "The end.")
	p.until(`document.querySelector('.turn.completed') && !document.querySelector('.tail').textContent && document.querySelectorAll('.chunk').length > 1000`)
	frames, read := eval[int](p, `(__ticks = false, __frames)`), eval[int](p, `__read`)
	t.Logf("%d words, %d bytes: %d bytes sanitised, %d frames", words, length, read, frames)
	require.Less(t, read, 5*length)
	require.Greater(t, frames, 20, "frames while the text arrived")
	// The page can still be used.
	p.say("thanks")
	h.Say(h.nthTurn(t, 2), "You are welcome.")
	p.sees("You are welcome.")
}
