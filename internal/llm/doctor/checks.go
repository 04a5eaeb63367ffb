package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// checks returns the checklist, in order.
func (e *exam) checks() []check {
	var noLayers, noTools, noSchema, noImages string // reasons to skip checks
	native := "native-execution"
	if e.caps.InvokesTools {
		native = "no-execution"
		noTools = "the model invokes its tools itself"
	}
	if e.cfg.Layers == nil {
		noLayers = "nobody says what the layers are"
	}
	if !e.caps.OutputSchema {
		noSchema = "the model does not declare that it enforces schemas"
	}
	if !e.cfg.Images {
		noImages = "nobody says that it sees images"
	}
	return []check{
		{"layers are in order", "layer-order", false, noLayers, e.checkLayers},
		{"connects", "reachable", false, "", e.checkConnection},
		{"answers in text", "text-blocks", true, "", e.checkText},
		{"reports usage", "usage", true, "", e.checkUsage},
		{"streams", "streaming", true, "", e.checkStreaming},
		{"a tool call is a block", "tool-call-blocks", true, noTools, e.checkCallIsBlock},
		{"the call comes at the end of the stream", "call-at-end", true, noTools, e.checkCallAtEnd},
		{"who invokes tools is as declared", native, true, "", e.checkInvocation},
		{"the tool's result is used", "no-invented-results", true, noTools, e.checkResultIsUsed},
		{"parallel calls have ids of their own", "distinct-call-ids", true, noTools, e.checkParallelCalls},
		{"an unknown model is refused", "unknown-model", true, "", e.checkUnknownModel},
		{"cancelling ends the request", "cancellation", true, "", e.checkCancellation},
		{"structured output", "output-schema", true, noSchema, e.checkStructured},
		{"structured output beside tools", "output-schema", true, cmp.Or(noSchema, noTools), e.checkStructuredWithTools},
		{"sees images", "images", true, noImages, e.checkImages},
	}
}

func (e *exam) checkLayers(ctx context.Context) (string, error) {
	got, err := e.cfg.Layers(ctx)
	if err != nil {
		return "", fmt.Errorf("the probe through the layers failed: %w", err)
	}
	want := []string{LayerRequests, LayerMiddleware, LayerObservability, LayerTools}
	if !slices.Equal(got, want) {
		return "", fmt.Errorf("from the inside out they are %s; want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	return strings.Join(want, " → "), nil
}

func (e *exam) checkConnection(ctx context.Context) (string, error) {
	var err error
	e.firstAnswer, err = e.ask(ctx, e.request("Reply with the one word: ready"))
	if err != nil {
		e.unreachable = true
		return "", err
	}
	return "as " + e.firstAnswer.reply.Model, nil
}

func (e *exam) checkText(context.Context) (string, error) {
	if strings.TrimSpace(e.firstAnswer.text()) == "" {
		return "", fmt.Errorf("the reply has no text (finish reason %q)", e.firstAnswer.reply.FinishReason)
	}
	return quote(e.firstAnswer.text()), nil
}

func (e *exam) checkUsage(context.Context) (string, error) {
	u := e.firstAnswer.reply.Usage
	if u.InputTokens <= 0 || u.OutputTokens <= 0 {
		return "", fmt.Errorf("%d tokens in, %d out: budgets and limits cannot hold", u.InputTokens, u.OutputTokens)
	}
	return fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens), nil
}

func (e *exam) checkStreaming(ctx context.Context) (string, error) {
	a, err := e.ask(ctx, e.request("Count from 1 to 30 in digits, separated by spaces. Write nothing else."))
	switch {
	case err != nil:
		return "", err
	case a.streamed != a.text():
		return "", fmt.Errorf("what was streamed is not the reply: %s and %s", quote(a.streamed), quote(a.text()))
	case a.fragments < 2:
		return "", fmt.Errorf("the text came in %d piece", a.fragments)
	}
	return fmt.Sprintf("%d pieces", a.fragments), nil
}

func (e *exam) checkUnknownModel(ctx context.Context) (string, error) {
	req := e.request("Reply with the one word: ready")
	req.Model = "no-such-model-" + strings.ToLower(randomWord())
	_, err := e.ask(ctx, req)
	switch code := agent.CodeOf(err); code {
	case agent.CodeNotFound, agent.CodeInvalid:
		return err.Error(), nil
	case "":
		return "", errors.New("it answered in the name of a model that does not exist: a slip in a profile would go unnoticed")
	default:
		return "", fmt.Errorf("want not_found or invalid, got %s: %w", code, err)
	}
}

// checkCancellation starts a long answer, cancels it at its first word, and measures how long it goes on.
func (e *exam) checkCancellation(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cancelled := make(chan time.Time, 1)
	out, ended := e.startCall(ctx, e.request("Write a story of a thousand words about a lighthouse."), func() {
		select {
		case cancelled <- time.Now():
			cancel()
		default:
		}
	})
	var o outcome
	select {
	case o = <-out:
		e.usage = e.usage.Add(o.answer.reply.Usage)
	case <-afterEnd(ctx, ended):
		return "", fmt.Errorf("the call goes on %s after it was cancelled", maxAbortTime)
	}
	select {
	case since := <-cancelled:
		took := time.Since(since)
		switch {
		case o.err == nil:
			return "", errors.New("the reply went on to its end")
		case agent.CodeOf(o.err) != agent.CodeCancelled:
			return "", fmt.Errorf("want cancelled, got %s: %w", agent.CodeOf(o.err), o.err)
		case took > maxAbortTime:
			return "", fmt.Errorf("it took %s", took.Round(time.Millisecond))
		}
		return took.Round(time.Millisecond).String(), nil
	default:
		return "", fmt.Errorf("no word came that could be cancelled: %w", cmp.Or(o.err, errors.New("an empty reply")))
	}
}

func (e *exam) checkImages(ctx context.Context) (string, error) {
	square := image.NewRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(square, square.Bounds(), image.NewUniform(color.RGBA{R: 255, A: 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, square); err != nil {
		return "", err
	}
	req := e.request("Which colour is this square? Answer with one English word.")
	req.Messages[0].Blocks = append(req.Messages[0].Blocks, agent.Block{
		Type: agent.BlockImage, MIMEType: "image/png", Base64: base64.StdEncoding.EncodeToString(b.Bytes()),
	})
	a, err := e.ask(ctx, req)
	if err != nil {
		return "", err
	}
	if !strings.Contains(strings.ToLower(a.text()), "red") {
		return "", fmt.Errorf("shown a red square it says %s", quote(a.text()))
	}
	return quote(a.text()), nil
}

func quote(s string) string { return fmt.Sprintf("%q", clip.Bytes(s, 120)) }
