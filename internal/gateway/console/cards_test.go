package console_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func toolEvent(kind agent.EventType, id agent.CallID, e agent.Event) agent.Event {
	e.Type, e.ToolCallID, e.ToolName = kind, id, "execute_pipeline"
	return event("tool/"+string(id), e)
}

func testTools(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "fetch")
	h.Emit(id, gatewaytest.Status(agent.StatusRunning),
		toolEvent(agent.EventToolStart, "c1", agent.Event{Input: json.RawMessage(`{"pipeline":[{"step":"fetch","url":"<b>x</b>"}]}`), SourceNodeName: "pipeline"}),
		toolEvent(agent.EventToolStart, "c2", agent.Event{Input: json.RawMessage(`{"n":2}`)}),
		toolEvent(agent.EventToolProgress, "c1", agent.Event{Text: "step 1 of 2"}))
	p.until(`document.querySelectorAll('.tool.running').length === 2`)
	p.sees("step 1 of 2")
	p.sees(`{"pipeline":[{"step":"fetch","url":"<b>x</b>"}]}`)
	h.Emit(id, toolEvent(agent.EventToolProgress, "c1", agent.Event{Text: "step 2 of 2"}))
	p.sees("step 2 of 2")
	h.Emit(id,
		toolEvent(agent.EventToolEnd, "c1", agent.Event{Output: json.RawMessage(`{"rows":3}`), Ref: "cas://sha256:abc"}),
		toolEvent(agent.EventToolEnd, "c2", agent.Event{Output: json.RawMessage(`"no such host"`), Failed: true}))
	p.until(`document.querySelectorAll('.tool.done').length === 1 && document.querySelectorAll('.tool.failed').length === 1`)
	require.Equal(t, []string{"480 ms", "480 ms"}, eval[[]string](p, `[...document.querySelectorAll('.tool time')].map((e) => e.textContent)`))
	p.click(".tool.done summary")
	p.until(`document.querySelector('.tool.done .progress').children.length === 2`)
	p.until(`[...document.querySelectorAll('.tool.done code')].at(-1).textContent === '{\n  "rows": 3\n}'`)
	p.sees("from pipeline")

	h.Store("cas://sha256:abc", []byte(`[{"id":1},{"id":2}]`))
	p.press("Open the whole result")
	p.until(`document.querySelector('dialog code')?.textContent.includes('"id": 2')`)
	p.press("Close")
	h.Finish(id, agent.TurnCompleted, "done")
	p.until(`document.querySelector('.turn.completed')`)
	p.press("Timeline")
	p.until(`document.querySelectorAll('.spans .step.tool').length === 2 && document.querySelectorAll('.spans .step.tool.failed').length === 1`)
}

// dotPNG returns a square picture in Base64.
func dotPNG(t *testing.T, side int) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		m.Set(i%side, i/side, color.RGBA{R: uint8(i % side * 255 / side), G: 118, B: uint8(i / side * 255 / side), A: 255})
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func testBlocks(t *testing.T, b *browser) {
	h, p, id := startTurn(t, b, "show")
	content := func(blocks ...agent.Block) agent.Event {
		return event("model/1", agent.Event{Type: agent.EventContent, ContentBlocks: blocks})
	}
	h.Emit(id, gatewaytest.Status(agent.StatusRunning),
		content(agent.Block{Type: agent.BlockReasoning, Reasoning: "Let me **think** "}), content(agent.Block{Type: agent.BlockReasoning, Reasoning: "about it."}),
		token("model/1", "See [1]."),
		content(agent.Block{Type: agent.BlockImage, Base64: dotPNG(t, 16), MIMEType: "image/png"}),
		content(agent.Block{Type: agent.BlockImage, URL: "https://images.example/cat.png"}),
		content(agent.Block{Type: agent.BlockImage, Base64: base64.StdEncoding.EncodeToString([]byte(`<svg onload="canary('svg')">`)), MIMEType: "image/svg+xml"}),
		content(agent.Block{Type: agent.BlockAudio, Base64: "AAAA", MIMEType: "audio/wav"}),
		content(agent.Block{Type: agent.BlockFile, Base64: "aGk=", MIMEType: "text/html", Extras: json.RawMessage(`{"filename":"../../x.html"}`)}),
		content(agent.Block{Type: agent.BlockFile, FileID: "file-7"}),
		content(agent.Block{Type: agent.BlockServerToolCall, ID: "s1", Name: "web_search", Args: json.RawMessage(`{"q":1}`)}),
		content(agent.Block{Type: agent.BlockNonStandard, Value: json.RawMessage(`{"odd":true}`)}),
		event("citations/1", agent.Event{Type: agent.EventContent, ContentBlocks: []agent.Block{{Type: agent.BlockText, Annotations: []agent.Annotation{
			{Type: "citation", Title: "House rules", URL: "https://rules.example/", CitedText: "30 days"}, {Type: "citation", Title: "Trap", URL: "javascript:canary('cite')"},
		}}}}))
	p.sees("2 sources")
	p.until(`document.querySelector('img.media')?.naturalWidth === 16`)
	require.True(t, eval[bool](p, `document.querySelector('img.media').src.startsWith('blob:')`))
	require.Equal(t, 1, eval[int](p, `document.images.length`), "pictures of other hosts are links")
	p.sees("image at images.example")
	p.until(`document.querySelector('audio[src^="blob:"]')`)
	require.Equal(t, []string{"image.svg", ".._.._x.html"}, eval[[]string](p, `[...document.querySelectorAll('a.file[download]')].map((e) => e.download)`))
	p.sees("file file-7: cannot be shown")
	p.sees("The provider ran web_search")
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll('.sources a').length`))

	require.False(t, eval[bool](p, `document.querySelector('.reasoning').open`))
	p.click(".reasoning summary")
	p.until(`document.querySelector('.reasoning strong')?.textContent === 'think'`)
	h.Finish(id, agent.TurnCompleted, "See [1].")
	p.until(`document.querySelector('.turn.completed')`)
}

// askApproval starts the nth turn, which waits for an approval.
func (h *server) askApproval(t *testing.T, p *tab, n int, a agent.Approval) agent.TurnID {
	t.Helper()
	p.say("please")
	id := h.nthTurn(t, n)
	a.TurnID = id
	if a.ToolName == "" {
		a.ToolName, a.Args = "send_money", json.RawMessage(`{"to":"ann","amount":100}`)
	}
	h.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "I will send it."),
		event("approval/1", agent.Event{Type: agent.EventApprovalRequested, Approval: &a}),
		event("approval/1", agent.Event{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: "awaiting_approval"}))
	p.until(`document.querySelector('.approval:not(.settled) [data-decision]')`)
	return id
}

func testDecisions(t *testing.T, b *browser) {
	h := newServer(t, nil)
	decided := make(chan agent.Decision, 1)
	refusals := make(chan error, 1)
	h.Decided = func(id agent.TurnID, d agent.Decision) error {
		select {
		case err := <-refusals:
			return err
		default:
		}
		decided <- d
		h.Emit(id, event("approval/1", agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{
			ApprovalID: d.ApprovalID, Decision: d.Decision, By: d.By, Message: d.Message, DecidedArgs: d.Args, TurnID: id,
		}}))
		h.Finish(id, agent.TurnCompleted, "Decided.")
		return nil
	}
	p := b.open(t, h.url, "/")
	expires := gatewaytest.Epoch().Add(time.Hour)
	h.askApproval(t, p, 1, agent.Approval{
		ApprovalID: "a1", Remember: agent.RememberTool, Description: "Money leaves the server.", Rule: "payments", ExpiresAt: &expires, OnExpiry: "reject",
	})
	p.sees("Money leaves the server.")
	p.sees("until ")
	p.until(`document.querySelector('.approval code').textContent.includes('"amount": 100')`)
	p.until(`document.querySelector('nav .badge')?.textContent === '1'`)
	p.click(".approval .check input")
	p.press("Approve")
	require.Equal(t, agent.Decision{ApprovalID: "a1", Decision: agent.DecisionApprove, Remember: true, By: "console"}, <-decided)
	p.until(`document.querySelector('.approval.settled.approve') && document.querySelectorAll('.turn.completed').length === 1`)

	h.askApproval(t, p, 2, agent.Approval{ApprovalID: "a2"})
	p.press("Edit…")
	p.until(`document.activeElement.matches('.approval textarea')`)
	setArgs := func(text string) {
		p.do(runJS(`document.querySelector('.decide textarea').focus(); document.activeElement.select()`))
		p.write(text)
	}
	setArgs(`{"amount": `)
	p.sees("No JSON")
	require.True(t, eval[bool](p, `document.querySelector('.decide .primary').disabled`))
	setArgs(`[1]`)
	p.sees("The arguments are a JSON object")
	setArgs(`{"amount": "ten"}`)
	refusals <- agent.Invalid("args.amount", "want a number")
	p.press("Run with these")
	p.sees("args.amount: want a number")
	setArgs(`{"amount": 10}`)
	p.key('\r', control)
	d := <-decided
	require.Equal(t, agent.DecisionEdit, d.Decision)
	require.JSONEq(t, `{"amount":10}`, string(d.Args))
	p.until(`document.querySelector('.approval.settled.edit') && document.querySelectorAll('.turn.completed').length === 2`)

	h.askApproval(t, p, 3, agent.Approval{ApprovalID: "a3"})
	p.press("Reject…")
	p.until(`document.activeElement.matches('.approval textarea')`)
	p.key(escape) // closes the form, and does not stop the turn
	p.press("Reject…")
	p.until(`document.activeElement.matches('.approval textarea')`)
	p.write("too much")
	p.press("Reject")
	require.Equal(t, agent.Decision{ApprovalID: "a3", Decision: agent.DecisionReject, Message: "too much", By: "console"}, <-decided)
	p.until(`document.querySelector('.approval.settled.reject')?.innerText.includes('too much') && document.querySelectorAll('.turn.completed').length === 3`)

	h.askApproval(t, p, 4, agent.Approval{ApprovalID: "a4", Allowed: []agent.DecisionKind{agent.DecisionRespond, agent.DecisionReject}})
	require.Equal(t, []string{"reject", "respond"}, eval[[]string](p, `[...document.querySelectorAll('.approval:not(.settled) [data-decision]')].map((e) => e.dataset.decision)`))
	p.press("Answer it myself…")
	p.until(`document.activeElement.matches('.approval textarea') && document.querySelector('.decide .primary').disabled`)
	p.write("it was sent by hand")
	p.press("Answer")
	require.Equal(t, agent.Decision{ApprovalID: "a4", Decision: agent.DecisionRespond, Message: "it was sent by hand", By: "console"}, <-decided)
	p.until(`document.querySelector('.approval.settled.respond') && document.querySelectorAll('.turn.completed').length === 4`)
}

func testInbox(t *testing.T, b *browser) {
	h := newServer(t, nil)
	decided := make(chan agent.Decision, 1)
	h.Decided = func(id agent.TurnID, d agent.Decision) error {
		h.Emit(id, agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: d.ApprovalID, Decision: d.Decision, By: d.By}})
		decided <- d
		return nil
	}
	p := b.open(t, h.url, "/")
	id := h.askApproval(t, p, 1, agent.Approval{ApprovalID: "a1"})
	p.goTo("approvals")
	p.until(`document.querySelectorAll('.entry .approval').length === 1`)
	p.press("Approve")
	require.Equal(t, "a1", (<-decided).ApprovalID)
	p.until(`document.querySelector('.entry .settled.approve') && !document.querySelector('nav .badge')`)
	p.press("decided")
	p.until(`document.querySelectorAll('.entry .settled').length === 1`)
	p.press("pending")
	p.sees("Nothing waits for a decision.")
	h.Finish(id, agent.TurnCompleted, "Sent.")
	p.do(chromedp.NavigateBack())
	p.until(`document.querySelector('.turn.completed')?.innerText.includes('I will send it.')`)
}
