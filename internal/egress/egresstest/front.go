package egresstest

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// drip is how often a slow server sends a byte: it never stops long enough for a bound between bytes.
const drip = 20 * time.Millisecond

// bombBytes is how large what is compressed is.
const bombBytes = 32 << 20

// answer is the front's: /good, /redirect/<code>/<to>, or the name of a costly answer. What a tool puts behind is not looked at. No
// connection is used twice, so that every request resolves.
func (w *World) answer(rw http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if parts[0] == "redirect" && len(parts) > 2 {
		code, err := strconv.Atoi(parts[1])
		to, bad := base64.RawURLEncoding.DecodeString(parts[2])
		if err == nil && bad == nil {
			rw.Header().Set("Connection", "close")
			rw.Header().Set("Location", string(to))
			rw.WriteHeader(code)
			return
		}
	}
	if costly := w.costly()[parts[0]]; costly != nil {
		costly(rw, r)
		return
	}
	w.plain(rw, r)
}

// plain answers what the tool takes.
func (w *World) plain(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Connection", "close")
	rw.Header().Set("Content-Type", w.kind)
	_, _ = io.WriteString(rw, w.good)
}

// Costly reports whether a URL leads to a costly answer. A tool may ask twice for one: the first time it may have run out of time, on a busy
// machine, before it saw what it refuses the second time.
func Costly(url string) bool {
	return slices.ContainsFunc(costlyAnswers(), func(name string) bool { return strings.Contains(url, "/"+name) })
}

// costlyAnswers are the names of them, in the order of the table.
func costlyAnswers() []string {
	return []string{
		"endless", "endless-string", "announced", "slow-header", "slow-status", "slow-body", "silent-body", "gzip-bomb", "gzip-twice", "deflate-bomb",
		"header-flood", "header-endless", "informational", "redirects", "cut-off", "cut-off-gzip", "bad-chunks", "no-http",
	}
}

func (w *World) costly() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"endless":        w.endless(`{"a":1},`),
		"endless-string": w.endless(strings.Repeat("x", 4096)),
		"announced": func(rw http.ResponseWriter, _ *http.Request) {
			w.header(rw).Set("Content-Length", "1099511627776")
			_, _ = io.WriteString(rw, "[")
		},
		"slow-header": raw("HTTP/1.1 200 OK\r\nX-Slow: ", "x", drip),
		"slow-status": raw("", "H", drip),
		"slow-body":   raw("HTTP/1.1 200 OK\r\nContent-Type: "+w.kind+"\r\nContent-Length: 60000\r\n\r\n[", " ", drip),
		"silent-body": raw("HTTP/1.1 200 OK\r\nContent-Type: "+w.kind+"\r\nContent-Length: 60000\r\n\r\n[", "", drip),
		"gzip-bomb": func(rw http.ResponseWriter, _ *http.Request) {
			w.header(rw).Set("Content-Encoding", "gzip")
			_, _ = rw.Write(w.bomb())
		},
		"gzip-twice": func(rw http.ResponseWriter, _ *http.Request) {
			w.header(rw).Set("Content-Encoding", "gzip, gzip")
			var twice bytes.Buffer
			z := gzip.NewWriter(&twice)
			_, _ = z.Write(w.bomb())
			_ = z.Close()
			_, _ = rw.Write(twice.Bytes())
		},
		"deflate-bomb": func(rw http.ResponseWriter, _ *http.Request) {
			w.header(rw).Set("Content-Encoding", "deflate")
			z, err := flate.NewWriter(rw, flate.BestSpeed)
			if err == nil {
				_, _ = io.Copy(z, spaces(bombBytes))
				_ = z.Close()
			}
		},
		"header-flood":   raw("HTTP/1.1 200 OK\r\n"+strings.Repeat("X-Flood: x\r\n", 100_000)+"\r\n[]", "", drip),
		"header-endless": raw("HTTP/1.1 200 OK\r\nX-Endless: ", strings.Repeat("x", 4096), 0),
		"informational":  raw("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 0),
		"redirects": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", fmt.Sprintf("/redirects/%d", time.Now().UnixNano()))
			rw.WriteHeader(http.StatusTemporaryRedirect)
		},
		"cut-off": cut("HTTP/1.1 200 OK\r\nContent-Type: " + w.kind + "\r\nContent-Length: 1000\r\n\r\n[{"),
		"cut-off-gzip": func(rw http.ResponseWriter, r *http.Request) {
			cut("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: "+w.kind+"\r\n\r\n"+string(w.bomb()[:100]))(rw, r)
		},
		"bad-chunks": cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: " + w.kind + "\r\n\r\nffffffffffffffffff\r\n[]"),
		"no-http":    cut("220 mail.example ESMTP\r\n"),
	}
}

func (w *World) header(rw http.ResponseWriter) http.Header {
	rw.Header().Set("Content-Type", w.kind)
	return rw.Header()
}

// endless writes an array that does not end.
func (w *World) endless(part string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		w.header(rw)
		text := "["
		if part[0] != '{' {
			text = `["`
		}
		for {
			if _, err := io.WriteString(rw, text); err != nil {
				return
			}
			text = part
		}
	}
}

// raw writes first and then more, every so often, until the client has gone.
func raw(first, more string, every time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		hijacked(rw, func(conn net.Conn) {
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = io.Copy(io.Discard, conn)
			}()
			_, err := io.WriteString(conn, first)
			for err == nil {
				select {
				case <-gone:
					return
				case <-time.After(every):
					_, err = io.WriteString(conn, more)
				}
			}
		})
	}
}

// cut writes a text and hangs up.
func cut(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		hijacked(rw, func(conn net.Conn) { _, _ = io.WriteString(conn, text) })
	}
}

func hijacked(rw http.ResponseWriter, talk func(conn net.Conn)) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	talk(conn)
}

// zipped is an array of blanks that is small only while it is compressed.
func zipped() []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil
	}
	_, _ = io.Copy(z, io.MultiReader(strings.NewReader("["), spaces(bombBytes), strings.NewReader("]")))
	_ = z.Close()
	return out.Bytes()
}

// spaces are blanks, which JSON and YAML allow anywhere.
func spaces(n int64) io.Reader { return io.LimitReader(blank{}, n) }

type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
