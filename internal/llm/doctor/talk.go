package doctor

import (
	"bytes"
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

// checks is the checklist, in order.
func (e *exam) checks() []check {
	native := "native-execution"
	if e.caps.InvokesTools {
		native = "no-execution"
	}
	return []check{
		{"layers are in order", "layer-order", false, e.layers},
		{"connects", "reachable", false, e.connects},
		{"answers in text", "text-blocks", true, e.answers},
		{"reports usage", "usage", true, e.counts},
		{"streams", "streaming", true, e.streams},
		{"a tool call is a block", "tool-call-blocks", true, e.callIsBlock},
		{"the call comes at the end of the stream", "call-at-end", true, e.callAtEnd},
		{"who invokes tools is as declared", native, true, e.invokes},
		{"the tool's result is used", "no-invented-results", true, e.usesResult},
		{"parallel calls have ids of their own", "distinct-call-ids", true, e.parallel},
		{"an unknown model is refused", "unknown-model", true, e.unknownModel},
		{"cancelling ends the request", "cancellation", true, e.cancels},
		{"structured output", "output-schema", true, e.structured},
		{"structured output beside tools", "output-schema", true, e.structuredWithTools},
		{"sees images", "images", true, e.sees},
	}
}

func (e *exam) layers(ctx context.Context) (string, error) {
	if e.cfg.Layers == nil {
		return "", skipped("nobody says what the layers are")
	}
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

func (e *exam) connects(ctx context.Context) (string, error) {
	var err error
	e.first, err = e.ask(ctx, e.request("Reply with the one word: ready"))
	if err != nil {
		e.unreachable = true
		return "", err
	}
	return "as " + e.first.reply.Model, nil
}

func (e *exam) answers(context.Context) (string, error) {
	if strings.TrimSpace(e.first.said()) == "" {
		return "", fmt.Errorf("the reply has no text (finish reason %q)", e.first.reply.FinishReason)
	}
	return quote(e.first.said()), nil
}

func (e *exam) counts(context.Context) (string, error) {
	u := e.first.reply.Usage
	if u.InputTokens <= 0 || u.OutputTokens <= 0 {
		return "", fmt.Errorf("%d tokens in, %d out: budgets and limits cannot hold", u.InputTokens, u.OutputTokens)
	}
	return fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens), nil
}

func (e *exam) streams(ctx context.Context) (string, error) {
	a, err := e.ask(ctx, e.request("Count from 1 to 30 in digits, separated by spaces. Write nothing else."))
	switch {
	case err != nil:
		return "", err
	case a.text != a.said():
		return "", fmt.Errorf("what was streamed is not the reply: %s and %s", quote(a.text), quote(a.said()))
	case a.pieces < 2:
		return "", fmt.Errorf("the text came in %d piece", a.pieces)
	}
	return fmt.Sprintf("%d pieces", a.pieces), nil
}

func (e *exam) unknownModel(ctx context.Context) (string, error) {
	req := e.request("Reply with the one word: ready")
	req.Model = "no-such-model-" + strings.ToLower(word())
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

// cancels starts a long answer, cancels it at its first word, and takes the time.
func (e *exam) cancels(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at := make(chan time.Time, 1)
	out, ended := e.start(ctx, e.request("Write a story of a thousand words about a lighthouse."), func() {
		select {
		case at <- time.Now():
			cancel()
		default:
		}
	})
	var o outcome
	select {
	case o = <-out:
		e.usage = e.usage.Add(o.answer.reply.Usage)
	case <-afterEnd(ctx, ended):
		return "", fmt.Errorf("the call goes on %s after it was cancelled", patience)
	}
	select {
	case began := <-at:
		took := time.Since(began)
		switch {
		case o.err == nil:
			return "", errors.New("the reply went on to its end")
		case agent.CodeOf(o.err) != agent.CodeCancelled:
			return "", fmt.Errorf("want cancelled, got %s: %w", agent.CodeOf(o.err), o.err)
		case took > patience:
			return "", fmt.Errorf("it took %s", took.Round(time.Millisecond))
		}
		return took.Round(time.Millisecond).String(), nil
	default:
		return "", fmt.Errorf("no word came that could be cancelled: %w", orNothing(o.err))
	}
}

func orNothing(err error) error {
	if err == nil {
		return errors.New("an empty reply")
	}
	return err
}

func (e *exam) sees(ctx context.Context) (string, error) {
	if !e.cfg.Images {
		return "", skipped("nobody says that it sees images")
	}
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
	if !strings.Contains(strings.ToLower(a.said()), "red") {
		return "", fmt.Errorf("shown a red square it says %s", quote(a.said()))
	}
	return quote(a.said()), nil
}

func quote(s string) string { return fmt.Sprintf("%q", clip.Bytes(s, 120)) }
