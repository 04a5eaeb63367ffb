package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

const (
	// MaxLogs is how many bytes are kept from the end of a container's output. A result on its last line cannot be longer.
	MaxLogs  = 256 << 10
	maxLines = 20_000   // asked for from the end
	maxRead  = 64 << 20 // bytes that are read of these lines
)

// output is the end of what a container wrote.
type output struct {
	text string
	cut  bool // the container wrote more
}

// logs reads the end of what a pod's container wrote. The API counts lines only, so if they are long, fewer are asked for.
func (r *run) logs(ctx context.Context, pod string) (output, error) {
	for lines := int64(maxLines); lines > 0; lines /= 100 {
		var end tailBuffer
		n, err := r.copyLogs(ctx, pod, lines, &end)
		if err != nil {
			return output{}, err
		}
		if n <= maxRead {
			text := string(end.bytes())
			return output{text: cleanText(text), cut: n > MaxLogs || lines < maxLines || strings.Count(text, "\n") >= maxLines}, nil
		}
	}
	return output{cut: true}, nil
}

func (r *run) copyLogs(ctx context.Context, pod string, lines int64, to io.Writer) (int64, error) {
	query := url.Values{"container": {containerName}, "tailLines": {strconv.FormatInt(lines, 10)}}
	stream, err := r.c.cfg.Client.send(ctx, http.MethodGet, r.c.podsPath()+"/"+pod+"/log?"+query.Encode(), nil)
	if err != nil {
		return 0, err
	}
	defer stream.Close() //nolint:errcheck // it was read
	return io.Copy(to, io.LimitReader(stream, maxRead+1))
}

// tailBuffer keeps the last MaxLogs bytes that are written to it, and at most twice as many in memory.
type tailBuffer struct{ buf []byte }

func (e *tailBuffer) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-MaxLogs):]
	if len(e.buf)+len(p) > 2*MaxLogs {
		e.buf = append(e.buf[:0], e.buf[len(e.buf)-MaxLogs:]...)
	}
	e.buf = append(e.buf, p...)
	return n, nil
}

func (e *tailBuffer) bytes() []byte { return e.buf[max(0, len(e.buf)-MaxLogs):] }

// cleanText returns a text without control characters and invalid UTF-8.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// resultOf returns the JSON that a container ended with: its termination message, the last line of its logs, or all of them. rest holds the
// logs without it.
func resultOf(message, logs string) (result json.RawMessage, rest string) {
	if found := jsonDocument(message); found != nil {
		return found, logs
	}
	text := strings.TrimRight(logs, " \t\n")
	head, line := "", text
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		head, line = text[:i+1], text[i+1:]
	}
	if found := jsonDocument(line); found != nil {
		return found, head
	}
	if found := jsonDocument(text); found != nil {
		return found, ""
	}
	return nil, logs
}

func jsonDocument(text string) json.RawMessage {
	doc := bytes.TrimSpace([]byte(strings.ToValidUTF8(text, "\uFFFD")))
	if len(doc) == 0 || !json.Valid(doc) {
		return nil
	}
	return doc
}

// tail returns the end of a text, in whole runes.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}
