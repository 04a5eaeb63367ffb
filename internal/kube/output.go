package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

const (
	// MaxLogs is what is kept of a container's output, in bytes of its end. A result on its last line is no longer.
	MaxLogs  = 256 << 10
	maxLines = 20_000   // asked for of the end
	maxRead  = 64 << 20 // bytes read of these
)

// output is what a container wrote.
type output struct {
	text string
	cut  bool // text is the end of more
}

// logs reads the end of what a pod's container wrote. The API gives ends by lines alone, so where these are long, fewer are asked for.
func (r *run) logs(ctx context.Context, pod string) (output, error) {
	for lines := int64(maxLines); lines > 0; lines /= 100 {
		var end ending
		n, err := r.copyLogs(ctx, pod, lines, &end)
		if err != nil {
			return output{}, err
		}
		if n <= maxRead {
			text := string(end.bytes())
			return output{text: readable(text), cut: n > MaxLogs || lines < maxLines || strings.Count(text, "\n") >= maxLines}, nil
		}
	}
	return output{cut: true}, nil
}

func (r *run) copyLogs(ctx context.Context, pod string, lines int64, to io.Writer) (int64, error) {
	stream, err := r.c.cfg.Client.CoreV1().Pods(r.c.cfg.Namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: containerName, TailLines: new(lines),
	}).Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer stream.Close() //nolint:errcheck // it was read
	return io.Copy(to, io.LimitReader(stream, maxRead+1))
}

// ending keeps the last MaxLogs bytes that are written to it, and less than twice as many in memory.
type ending struct{ buf []byte }

func (e *ending) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-MaxLogs):]
	if len(e.buf)+len(p) > 2*MaxLogs {
		e.buf = append(e.buf[:0], e.buf[len(e.buf)-MaxLogs:]...)
	}
	e.buf = append(e.buf, p...)
	return n, nil
}

func (e *ending) bytes() []byte { return e.buf[max(0, len(e.buf)-MaxLogs):] }

// readable is text without what no terminal, database or model should be sent.
func readable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// resultOf finds the JSON that a container ended with: its termination message, or the last line of what it wrote, or all of that. What it
// wrote besides is the rest.
func resultOf(message, logs string) (result json.RawMessage, rest string) {
	if found := document(message); found != nil {
		return found, logs
	}
	text := strings.TrimRight(logs, " \t\n")
	head, line := "", text
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		head, line = text[:i+1], text[i+1:]
	}
	if found := document(line); found != nil {
		return found, head
	}
	if found := document(text); found != nil {
		return found, ""
	}
	return nil, logs
}

func document(text string) json.RawMessage {
	doc := bytes.TrimSpace([]byte(strings.ToValidUTF8(text, "\uFFFD")))
	if len(doc) == 0 || !json.Valid(doc) {
		return nil
	}
	return doc
}

// tail is the end of a text, whole runes of it.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}
