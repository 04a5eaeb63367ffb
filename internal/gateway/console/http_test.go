package console_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/gateway/console"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// get sends a request without the browser. headers are names and values.
func get(t *testing.T, method, address string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	response, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

func TestPage(t *testing.T) {
	h := newServer(t, nil)
	response, page := get(t, http.MethodGet, h.url+"/")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	require.Equal(t, "no-cache", response.Header.Get("Cache-Control"))
	require.Equal(t, "no-referrer", response.Header.Get("Referrer-Policy"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	policies := response.Header.Values("Content-Security-Policy")
	require.Len(t, policies, 1)
	for _, directive := range []string{
		"default-src 'none'", "style-src 'self'", "img-src 'self' data: blob:", "media-src blob:", "connect-src 'self'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types dompurify",
	} {
		require.Contains(t, strings.Split(policies[0], "; "), directive)
	}
	require.NotContains(t, policies[0], "unsafe")
	require.NotContains(t, page, "{{")

	// Nothing is inline but the import map, and the policy names it.
	inline := regexp.MustCompile(`(?s)<script[^>]*>(.*?)</script>`).FindAllStringSubmatch(page, -1)
	require.Len(t, inline, 2)
	require.Empty(t, inline[1][1])
	require.NotRegexp(t, `(?i)\son\w+=|style=|javascript:`, page)

	etag := response.Header.Get("ETag")
	again, body := get(t, http.MethodGet, h.url+"/", "If-None-Match", `"other", W/`+etag)
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, body)
	require.Equal(t, policies, again.Header.Values("Content-Security-Policy"))
	head, body := get(t, http.MethodHead, h.url+"/")
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.Empty(t, body)
	wrongMethod, _ := get(t, http.MethodPost, h.url+"/")
	require.Equal(t, http.StatusMethodNotAllowed, wrongMethod.StatusCode)
}

func TestFiles(t *testing.T) {
	h := newServer(t, nil)
	_, page := get(t, http.MethodGet, h.url+"/")
	found := regexp.MustCompile(`(?:src|href)="(console/([0-9a-f]{16})/[^"]+)"`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(found), 20)
	for _, f := range found {
		response, plain := get(t, http.MethodGet, h.url+"/"+f[1])
		require.Equal(t, http.StatusOK, response.StatusCode, f[1])
		require.Equal(t, "public, max-age=31536000, immutable", response.Header.Get("Cache-Control"))
		require.Contains(t, response.Header.Values("Vary"), "Accept-Encoding")

		zipped, body := get(t, http.MethodGet, h.url+"/"+f[1], "Accept-Encoding", "br, gzip;q=0.8")
		require.Equal(t, response.Header.Get("Content-Type"), zipped.Header.Get("Content-Type"))
		if zipped.Header.Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(strings.NewReader(body))
			require.NoError(t, err)
			unzipped, err := io.ReadAll(r)
			require.NoError(t, err)
			body = string(unzipped)
		}
		require.Equal(t, plain, body)
		declined, body := get(t, http.MethodGet, h.url+"/"+f[1], "Accept-Encoding", "gzip;q=0")
		require.Empty(t, declined.Header.Get("Content-Encoding"))
		require.Equal(t, plain, body)
	}
	version := found[0][2]
	for _, wrong := range []string{
		"/console/", "/console/" + version, "/console/" + version + "/", "/console/" + version + "/index.html", "/console/" + version + "/js",
		"/console/0000000000000000/js/main.js", "/console/" + version + "/js/../../../go.mod", "/console/" + version + "/js%2fmain.js%00",
	} {
		response, _ := get(t, http.MethodGet, h.url+wrong)
		require.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, response.StatusCode, wrong)
		require.Contains(t, response.Header.Get("Content-Security-Policy"), "sandbox", wrong)
	}
}

// TestConfigOfCallers checks that only callers who may read turns get the address of the Web UI.
func TestConfigOfCallers(t *testing.T) {
	open := newServer(t, nil)
	_, body := get(t, http.MethodGet, open.url+"/console/config.json")
	require.JSONEq(t, `{"auth":false,"ui_url":"http://127.0.0.1:8233","namespace":"prod"}`, body)

	h := newServer(t, gatewaytest.Credentials{"reader": gatewaytest.Caller("acme", "ann", "turns.read:analyst"), "approver": gatewaytest.Caller("acme", "bob", "approvals.*")})
	_, body = get(t, http.MethodGet, h.url+"/console/config.json")
	require.JSONEq(t, `{"auth":true}`, body)
	_, body = get(t, http.MethodGet, h.url+"/console/config.json", "Authorization", "Bearer approver")
	require.JSONEq(t, `{"auth":true}`, body)
	_, body = get(t, http.MethodGet, h.url+"/console/config.json", "Authorization", "Bearer reader")
	require.JSONEq(t, `{"auth":true,"ui_url":"http://127.0.0.1:8233","namespace":"prod"}`, body)
	response, _ := get(t, http.MethodGet, h.url+"/console/config.json", "Authorization", "Bearer nobody")
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	response, _ = get(t, http.MethodGet, h.url+"/")
	require.Equal(t, http.StatusOK, response.StatusCode)
}

func TestConfigIsChecked(t *testing.T) {
	for _, wrong := range []string{"javascript:alert(1)", "ui", "//host", "http://", "http://a:b@host", "http://host/?q", "http://host/#x", "http://[::1"} {
		_, err := console.New(console.Config{UIURL: wrong})
		require.ErrorContains(t, err, "ui url", wrong)
	}
}

// TestLibraries checks that the libraries have the checksums of the published files, and that each has its licence.
func TestLibraries(t *testing.T) {
	const dir = "static/lib"
	listed := map[string]string{}
	file, err := os.Open(filepath.Join(dir, "SHA256SUMS.txt"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		require.True(t, ok, lines.Text())
		listed[name] = sum
	}
	total := 0
	walk(t, "static", func(name string, data []byte) {
		total += len(data)
		inside, isLib := strings.CutPrefix(name, dir+"/")
		if !isLib || inside == "SHA256SUMS.txt" || inside == "README.txt" {
			return
		}
		sum := sha256.Sum256(data)
		require.Equal(t, listed[inside], hex.EncodeToString(sum[:]), "%s is not the published file", name)
		require.NotContains(t, string(data), "sourceMappingURL", name)
		delete(listed, inside)
	})
	require.Empty(t, listed)
	require.Less(t, total, 460<<10)
	for _, name := range []string{"dompurify", "highlightjs", "htm", "marked", "preact"} {
		require.FileExists(t, filepath.Join(dir, "licenses", name+".txt"))
	}
}

// TestModules checks that the imports of the console's scripts exist, and that no script turns text into HTML or code.
func TestModules(t *testing.T) {
	imports := regexp.MustCompile(`(?m)^(?:import|export)\b(?:[^'"\n]*\bfrom)?\s*['"]([^'"]+)['"]`)
	walk(t, "static/js", func(name string, data []byte) {
		for _, m := range imports.FindAllStringSubmatch(string(data), -1) {
			if strings.HasPrefix(m[1], ".") {
				require.FileExists(t, path.Join(path.Dir(name), m[1]), name)
				continue
			}
			require.Contains(t, []string{"preact", "preact/hooks"}, m[1], name)
		}
		for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "dangerouslySet", "srcdoc"} {
			require.NotContains(t, string(data), sink, name)
		}
		require.LessOrEqual(t, strings.Count(string(data), "\n"), 300, name)
	})
}

func walk(t *testing.T, root string, visit func(name string, data []byte)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err == nil {
			visit(filepath.ToSlash(name), data)
		}
		return err
	}))
}
