package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// contentTypes are those of the files that there are.
//
//nolint:gochecknoglobals // a constant in all but syntax
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// assets are the files of the console, ready to be sent.
type assets struct {
	version string // a hash of them all, and part of their paths
	files   map[string]*asset
	page    *asset
	policy  string // Content-Security-Policy of the page
}

// asset is one file.
type asset struct {
	mime   string
	etag   string
	plain  []byte
	zipped []byte // nil where it is no smaller
}

const root = "static"

func readAssets(from fs.FS) (*assets, error) {
	a := &assets{files: map[string]*asset{}}
	all := sha256.New()
	var page []byte
	var scripts []string
	err := fs.WalkDir(from, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, root+"/")
		fmt.Fprintf(all, "%s %d\n", name, len(data))
		all.Write(data)
		if name == "index.html" {
			page = data
			return nil
		}
		if strings.HasPrefix(name, "js/") {
			scripts = append(scripts, name)
		}
		a.files[name], err = newAsset(name, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	a.version = hex.EncodeToString(all.Sum(nil))[:16]
	return a, a.build(string(page), scripts)
}

// build puts the version into the page's paths, and the page's one inline script, the import map, into its policy.
func (a *assets) build(page string, scripts []string) error {
	base := "console/" + a.version + "/"
	imports, err := json.Marshal(map[string]map[string]string{"imports": {
		"preact": "./" + base + "lib/preact.js", "preact/hooks": "./" + base + "lib/preact-hooks.js",
	}})
	if err != nil {
		return fmt.Errorf("encode import map: %w", err)
	}
	var preload strings.Builder
	for _, name := range scripts {
		fmt.Fprintf(&preload, "<link rel=\"modulepreload\" href=\"%s%s\">\n", base, name)
	}
	page = strings.NewReplacer("{{base}}", base, "{{imports}}", string(imports), "{{preload}}", preload.String()).Replace(page)
	if a.page, err = newAsset("index.html", []byte(page)); err != nil {
		return err
	}
	sum := sha256.Sum256(imports)
	a.policy = strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		"style-src 'self'",
		"img-src 'self' data: blob:", // what a model wrote never makes a browser call on another host
		"media-src blob:",
		"connect-src 'self'",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types dompurify",
	}, "; ")
	return nil
}

func newAsset(name string, data []byte) (*asset, error) {
	mime, ok := contentTypes[path.Ext(name)]
	if !ok {
		return nil, fmt.Errorf("%s: files of this kind are not served", name)
	}
	sum := sha256.Sum256(data)
	f := &asset{mime: mime, etag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: data}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := zip.Write(data); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if b.Len() < len(data) {
		f.zipped = b.Bytes()
	}
	return f, nil
}

// serve answers with the file, or with 304 to who has it. The client must have taken it within timeout.
func (f *asset) serve(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	h := w.Header()
	h.Set("ETag", f.etag)
	h.Set("Vary", "Accept-Encoding")
	if matches(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if f.zipped != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Type", f.mime)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		// An error means that the writer has no deadlines, as in a test with a recorder.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout))
		_, _ = w.Write(body) // a client that went away is of no interest
	}
}

// matches reports whether If-None-Match names an ETag; proxies that compress make weak ones of it.
func matches(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == etag {
			return true
		}
	}
	return false
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
