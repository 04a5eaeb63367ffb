package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Config has the targets of the console's links.
type Config struct {
	UIURL     string // base URL of the Temporal Web UI, http or https; empty: no links to it
	Namespace string // Temporal namespace of the turns; empty: default
}

// Door serves the console. Create it with [New].
type Door struct {
	cfg    Config
	assets *assets
}

// New reads the embedded files. The error names the setting at fault.
func New(cfg Config) (*Door, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = "default"
	}
	if cfg.UIURL != "" {
		u, err := url.Parse(cfg.UIURL)
		switch {
		case err != nil:
			return nil, fmt.Errorf("configure console: ui url: %w", err)
		case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "":
			return nil, errors.New("configure console: ui url: wants http(s)://host[:port][/path] and nothing else")
		}
		cfg.UIURL = strings.TrimRight(cfg.UIURL, "/")
	}
	files, err := readAssets(static)
	if err != nil {
		return nil, fmt.Errorf("read console: %w", err)
	}
	return &Door{cfg: cfg, assets: files}, nil
}

// Routes implements [gateway.Door].
func (d *Door) Routes() []gateway.Route {
	return []gateway.Route{
		{Method: http.MethodGet, Path: "/{$}", Public: true, Handle: d.getPage},
		{Method: http.MethodGet, Path: "/console/config.json", Public: true, Handle: d.getConfig},
		{Method: http.MethodGet, Path: "/console/{version}/{file...}", Public: true, Handle: d.getFile},
	}
}

// configBody is the configuration that the page loads first.
type configBody struct {
	Auth      bool   `json:"auth"`             // whether a credential is required
	UIURL     string `json:"ui_url,omitempty"` // only for callers who may read turns
	Namespace string `json:"namespace,omitempty"`
}

func (d *Door) getConfig(_ http.ResponseWriter, _ *http.Request, v *gateway.Call) error {
	caller := v.Principal()
	body := configBody{Auth: caller.Method != agent.MethodNone}
	if d.cfg.UIURL != "" && caller.MayAny(agent.ActionTurnsRead) {
		body.UIURL, body.Namespace = d.cfg.UIURL, d.cfg.Namespace
	}
	v.WriteJSON(http.StatusOK, body)
	return nil
}

func (d *Door) getPage(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	h := w.Header()
	h.Set("Content-Security-Policy", d.assets.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-cache") // a new version of the server has other files
	d.assets.page.serve(w, r, v.Limits().WriteTimeout)
	return nil
}

// getFile serves a file. Its path contains the version, which is a hash of all files, so the content of a path never changes.
func (d *Door) getFile(w http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	f, ok := d.assets.files[r.PathValue("file")]
	if !ok || r.PathValue("version") != d.assets.version {
		return agent.Errorf(agent.CodeNotFound, "", "no such path: %.200q", r.URL.Path)
	}
	h := w.Header()
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	f.serve(w, r, v.Limits().WriteTimeout)
	return nil
}
