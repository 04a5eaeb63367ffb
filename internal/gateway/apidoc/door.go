// Package apidoc serves the OpenAPI document of the REST API at GET /v1/openapi.json and GET /v1/openapi.yaml.
//
// The document is written by hand, in several files that are joined in the order of their names. It uses OpenAPI 3.0.3, which most client
// generators read and which kin-openapi validates completely. Fields that hold any JSON are marked nullable, because kin-openapi and some
// generators need that. The tests compare the document with the routes of a gateway with all its doors, with the Go types of requests and
// answers, and with real answers.
package apidoc

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/turnstone-run/turnstone/internal/gateway"
)

//go:embed document/*.yaml
var parts embed.FS

// Door serves the document. Create it with [New].
type Door struct {
	text, json content
}

var _ gateway.Door = (*Door)(nil)

// content is the document in one format.
type content struct {
	media string
	tag   string // the ETag
	body  []byte
}

// New joins the parts of the document and converts it to JSON.
func New() (*Door, error) {
	text, err := document()
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	return &Door{text: contentOf("application/yaml", text), json: contentOf("application/json", asJSON)}, nil
}

func contentOf(media string, body []byte) content {
	sum := sha256.Sum256(body)
	return content{media: media, tag: `"` + hex.EncodeToString(sum[:16]) + `"`, body: body}
}

// document returns the whole document as YAML.
func document() ([]byte, error) {
	names, err := fs.Glob(parts, "document/*.yaml") // sorted
	if err != nil {
		return nil, fmt.Errorf("list the parts of the OpenAPI document: %w", err)
	}
	var whole bytes.Buffer
	for _, name := range names {
		part, err := parts.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		whole.Write(part)
	}
	return whole.Bytes(), nil
}

// Routes implements [gateway.Door]. The routes are public: the document holds nothing that the documentation does not.
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodGet, Path: "/v1/openapi.json", Public: true, Handle: d.json.serve},
		{Method: http.MethodGet, Path: "/v1/openapi.yaml", Public: true, Handle: d.text.serve},
	}
}

// serve answers with the document, or with 304 if the client has it already.
func (c *content) serve(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	h := w.Header()
	h.Set("Content-Type", c.media)
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("ETag", c.tag)
	// An error means that the writer has no deadlines, as in a test with a recorder.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(v.Limits().WriteTimeout))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.body))
	return nil
}
