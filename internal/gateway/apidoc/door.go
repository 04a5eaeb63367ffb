// Package apidoc is the door that tells how all the others are used: GET /v1/openapi.json and GET /v1/openapi.yaml serve the OpenAPI document
// of the REST API.
//
// The document is written by hand, in parts that make one YAML text when they are put together in the order of their names. It is of OpenAPI
// 3.0.3, because that is what most generators of clients read, and what kin-openapi validates without leaving anything out. What may be any
// JSON says that it is nullable: to the specification that goes without saying, to kin-openapi and others it does not. The tests hold it
// against the routes of a gateway with all its doors, against the Go types of requests and answers, and against real answers.
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
	tag   string // its entity tag
	body  []byte
}

// New puts the document together, once.
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

// document is the whole of it as YAML.
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

// Routes implements [gateway.Door]. They are public: the document says no more than the documentation.
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodGet, Path: "/v1/openapi.json", Public: true, Handle: d.json.serve},
		{Method: http.MethodGet, Path: "/v1/openapi.yaml", Public: true, Handle: d.text.serve},
	}
}

// serve answers with the document, or with 304 to one who has it.
func (c *content) serve(w http.ResponseWriter, r *http.Request, v *gateway.Visit) error {
	h := w.Header()
	h.Set("Content-Type", c.media)
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("ETag", c.tag)
	// An error means that the writer has no deadlines, as in a test with a recorder.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(v.Limits().WriteTimeout))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.body))
	return nil
}
