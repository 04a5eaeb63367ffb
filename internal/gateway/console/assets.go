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

// contentTypes has the content types of the console's files, by extension.
//
//nolint:gochecknoglobals // nothing changes it
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// assets has the files of the console.
type assets struct {
	version string // a hash of all files, which is part of their paths
	files   map[string]*asset
	page    *asset
	policy  string // Content-Security-Policy of the page
}

// asset is one file.
type asset struct {
	mime    string
	etag    string
	data    []byte
	gzipped []byte // nil if it is not smaller than data
}

const root = "static"

// readAssets reads the files below root.
func readAssets(from fs.FS) (*assets, error) {
	a := &assets{files: map[string]*asset{}}
	hash := sha256.New()
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
		fmt.Fprintf(hash, "%s %d\n", name, len(data))
		hash.Write(data)
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
	a.version = hex.EncodeToString(hash.Sum(nil))[:16]
	return a, a.buildPage(string(page), scripts)
}

// buildPage sets the page and its policy. The page's paths contain the version, and its policy allows its one inline script, the import map.
func (a *assets) buildPage(page string, scripts []string) error {
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
		"img-src 'self' data: blob:", // so that text of a model cannot make the browser load images from other hosts
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
	f := &asset{mime: mime, etag: `"` + hex.EncodeToString(sum[:12]) + `"`, data: data}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := zip.Write(data); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if b.Len() < len(data) {
		f.gzipped = b.Bytes()
	}
	return f, nil
}

// serve answers with the file, or with 304 if the client has it. The response must be sent within timeout.
func (f *asset) serve(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	h := w.Header()
	h.Set("ETag", f.etag)
	h.Set("Vary", "Accept-Encoding")
	if matches(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.data
	if f.gzipped != nil && acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	h.Set("Content-Type", f.mime)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // a recorder in a test has no deadlines
		_, _ = w.Write(body)                                                        // an error means that the client has disconnected
	}
}

// matches reports whether a header If-None-Match names an ETag. Proxies that compress turn it into a weak one.
func matches(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == etag {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether the header Accept-Encoding allows gzip.
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
