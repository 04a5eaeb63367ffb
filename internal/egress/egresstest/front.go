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

// drip is the interval at which a slow server sends a byte. It is too short for a timeout between bytes.
const drip = 20 * time.Millisecond

// bombBytes is the decompressed size of a compression bomb.
const bombBytes = 32 << 20

// serveFront answers /good, /redirect/<code>/<to>, and the names of costly responses. It ignores text that a tool appends to the path. It closes the
// connection after each response, so that every request resolves the name.
func (w *World) serveFront(rw http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if parts[0] == "redirect" && len(parts) > 2 {
		code, err := strconv.Atoi(parts[1])
		to, decodeErr := base64.RawURLEncoding.DecodeString(parts[2])
		if err == nil && decodeErr == nil {
			rw.Header().Set("Connection", "close")
			rw.Header().Set("Location", string(to))
			rw.WriteHeader(code)
			return
		}
	}
	if costly := w.costlyHandlers()[parts[0]]; costly != nil {
		costly(rw, r)
		return
	}
	w.serveGood(rw, r)
}

// serveGood answers with a body that the tool accepts.
func (w *World) serveGood(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Connection", "close")
	rw.Header().Set("Content-Type", w.kind)
	_, _ = io.WriteString(rw, w.good)
}

// Costly reports whether a URL has a costly response. A tool may fetch such a URL twice, because the first try may time out on a busy machine before the
// tool has seen the reason for refusing the response.
func Costly(url string) bool {
	return slices.ContainsFunc(costlyAnswers(), func(name string) bool { return strings.Contains(url, "/"+name) })
}

// costlyAnswers returns the names of the costly answers.
func costlyAnswers() []string {
	return []string{
		"endless", "endless-string", "announced", "slow-header", "slow-status", "slow-body", "silent-body", "gzip-bomb", "gzip-twice", "deflate-bomb",
		"header-flood", "header-endless", "informational", "redirects", "cut-off", "cut-off-gzip", "bad-chunks", "no-http",
	}
}

func (w *World) costlyHandlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"endless":        w.endless(`{"a":1},`),
		"endless-string": w.endless(strings.Repeat("x", 4096)),
		"announced": func(rw http.ResponseWriter, _ *http.Request) {
			w.header(rw).Set("Content-Length", "1099511627776")
			_, _ = io.WriteString(rw, "[")
		},
		"slow-header": writeForever("HTTP/1.1 200 OK\r\nX-Slow: ", "x", drip),
		"slow-status": writeForever("", "H", drip),
		"slow-body":   writeForever("HTTP/1.1 200 OK\r\nContent-Type: "+w.kind+"\r\nContent-Length: 60000\r\n\r\n[", " ", drip),
		"silent-body": writeForever("HTTP/1.1 200 OK\r\nContent-Type: "+w.kind+"\r\nContent-Length: 60000\r\n\r\n[", "", drip),
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
		"header-flood":   writeForever("HTTP/1.1 200 OK\r\n"+strings.Repeat("X-Flood: x\r\n", 100_000)+"\r\n[]", "", drip),
		"header-endless": writeForever("HTTP/1.1 200 OK\r\nX-Endless: ", strings.Repeat("x", 4096), 0),
		"informational":  writeForever("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 0),
		"redirects": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", fmt.Sprintf("/redirects/%d", time.Now().UnixNano()))
			rw.WriteHeader(http.StatusTemporaryRedirect)
		},
		"cut-off": writeAndHangUp("HTTP/1.1 200 OK\r\nContent-Type: " + w.kind + "\r\nContent-Length: 1000\r\n\r\n[{"),
		"cut-off-gzip": func(rw http.ResponseWriter, r *http.Request) {
			writeAndHangUp("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: "+w.kind+"\r\n\r\n"+string(w.bomb()[:100]))(rw, r)
		},
		"bad-chunks": writeAndHangUp("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: " + w.kind + "\r\n\r\nffffffffffffffffff\r\n[]"),
		"no-http":    writeAndHangUp("220 mail.example ESMTP\r\n"),
	}
}

func (w *World) header(rw http.ResponseWriter) http.Header {
	rw.Header().Set("Content-Type", w.kind)
	return rw.Header()
}

// endless returns a handler that writes an array without end.
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

// writeForever returns a handler that writes first and then more, with pauses, until the client has gone.
func writeForever(first, more string, every time.Duration) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		hijack(rw, func(conn net.Conn) {
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

// writeAndHangUp returns a handler that writes a text and closes the connection.
func writeAndHangUp(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		hijack(rw, func(conn net.Conn) { _, _ = io.WriteString(conn, text) })
	}
}

func hijack(rw http.ResponseWriter, talk func(conn net.Conn)) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	talk(conn)
}

// gzipBomb returns a compressed array of blanks.
func gzipBomb() []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil
	}
	_, _ = io.Copy(z, io.MultiReader(strings.NewReader("["), spaces(bombBytes), strings.NewReader("]")))
	_ = z.Close()
	return out.Bytes()
}

// spaces returns blanks, which JSON and YAML allow anywhere.
func spaces(n int64) io.Reader { return io.LimitReader(blank{}, n) }

type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
