package library

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// Bounds of actions.
const (
	maxRecipients = 50
	maxAddress    = 320 // bytes
	maxSubject    = 1_000
	maxURL        = 4_096
	maxHeaders    = 32
	maxHeader     = 4_096 // bytes of a value
	maxSteps      = 50
	maxRef        = 1_024
)

func (r *configReader) checkAddresses(member string, list definitions.Addresses) {
	if len(list) > maxRecipients {
		r.addFault(member, "are %d, at most %d", len(list), maxRecipients)
		return
	}
	for i, address := range list {
		if parsed, err := mail.ParseAddress(address); err != nil || len(address) > maxAddress || strings.ContainsAny(address, "\r\n") {
			r.addFault(fmt.Sprintf("%s[%d]", member, i), "%q is no address, such as ops@example.com", clip.Bytes(address, maxQuoted))
		} else if !strings.Contains(parsed.Address, "@") {
			r.addFault(fmt.Sprintf("%s[%d]", member, i), "%q has no domain", clip.Bytes(address, maxQuoted))
		}
	}
}

// countExpressions adds n to the number of expressions. It returns false after adding a fault if the definition has too many.
func (r *configReader) countExpressions(member string, n int) bool {
	r.checker.expressions += n
	if r.checker.expressions > maxExpressions {
		r.addFault(member, "the definition has more than %d expressions", maxExpressions)
		return false
	}
	return true
}

func (r *configReader) checkTemplate(member, text string) {
	if !r.countExpressions(member, strings.Count(text, "{{")) {
		return
	}
	if _, err := expr.CompileTemplate(text); err != nil {
		r.addFault(member, "%s", err.Error())
	}
}

func (r *configReader) checkEmail() {
	e := new(email)
	if !r.decodeConfig(e) {
		return
	}
	r.checkAddresses("config.to", e.To)
	r.checkAddresses("config.cc", e.CC)
	if len(e.Subject) > maxSubject {
		r.addFault("config.subject", "is %d bytes, at most %d", len(e.Subject), maxSubject)
	} else if strings.ContainsAny(e.Subject, "\r\n") {
		r.addFault("config.subject", "is more than one line")
	}
	r.checkTemplate("config.subject", e.Subject)
	r.checkTemplate("config.body", e.Body)
	r.checkAttempts(&e.attempts, maxTaskSec)
}

// webhookMethods returns the methods that a webhook may use.
func webhookMethods() []string {
	return []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

func (r *configReader) checkWebhook() {
	w := new(webhook)
	if !r.decodeConfig(w) {
		return
	}
	r.checkURL(w.URL)
	if w.Method != "" && !slices.Contains(webhookMethods(), w.Method) {
		r.addFault("config.method", "want one of %s, got %q", strings.Join(webhookMethods(), ", "), clip.Bytes(w.Method, maxQuoted))
	}
	r.checkHeaders(w.Headers)
	if w.Auth != "" && !agent.ValidName(w.Auth) {
		r.addFault("config.auth", "want the name of an auth profile, got %q", clip.Bytes(w.Auth, maxQuoted))
	}
	if text := ""; !isNull(w.Body) && json.Unmarshal(w.Body, &text) == nil {
		r.checkTemplate("config.body", text)
	}
	r.checkAttempts(&w.attempts, maxTaskSec)
}

// checkURL checks the part of a URL before its first expression.
func (r *configReader) checkURL(text string) {
	const member = "config.url"
	switch {
	case text == "":
		r.addFault(member, "is required")
		return
	case len(text) > maxURL:
		r.addFault(member, "is %d bytes, at most %d", len(text), maxURL)
		return
	}
	r.checkTemplate(member, text)
	literal, _, isTemplate := strings.Cut(text, "{{")
	if isTemplate && literal == "" {
		return
	}
	u, err := url.Parse(literal)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		r.addFault(member, "want an http or https URL with a host")
	case u.User != nil:
		r.addFault(member, "must not hold credentials: name an auth profile as config.auth")
	case isTemplate && u.Path == "":
		r.addFault(member, "the host must not be made of an expression: put one behind https://host/ or make it all of the URL")
	}
}

func (r *configReader) checkHeaders(headers map[string]string) {
	if len(headers) > maxHeaders {
		r.addFault("config.headers", "are %d, at most %d", len(headers), maxHeaders)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		path, value := "config.headers."+clip.Bytes(name, maxQuoted), headers[name]
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "Cookie", "Proxy-Authorization":
			r.addFault(path, "must not hold credentials: name an auth profile as config.auth")
			continue
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Idempotency-Key":
			r.addFault(path, "is the runtime's")
			continue
		}
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			r.addFault(path, "is no name of a header")
		case len(value) > maxHeader:
			r.addFault(path, "is %d bytes, at most %d", len(value), maxHeader)
		case !httpguts.ValidHeaderFieldValue(value):
			r.addFault(path, "has characters that no header may have")
		}
	}
}

func (r *configReader) checkPipeline() {
	p := new(pipeline)
	if !r.decodeConfig(p) {
		return
	}
	switch n := len(p.Pipeline); {
	case n == 0:
		r.addFault("config.pipeline", "has no steps")
	case n > maxSteps:
		r.addFault("config.pipeline", "has %d steps, at most %d", n, maxSteps)
	}
	for i, raw := range p.Pipeline {
		var step struct {
			Step string `json:"step"`
		}
		if err := json.Unmarshal(raw, &step); err != nil || isNull(raw) {
			r.addFault(fmt.Sprintf("config.pipeline[%d]", i), "want an object with a step")
		} else if step.Step == "" {
			r.addFault(fmt.Sprintf("config.pipeline[%d].step", i), "is required")
		}
	}
	if len(p.InputRef) > maxRef {
		r.addFault("config.input_ref", "is %d bytes, at most %d", len(p.InputRef), maxRef)
	}
	r.checkAttempts(&p.attempts, maxTaskSec)
}

func (r *configReader) checkAgent() {
	a := new(agentTurn)
	if !r.decodeConfig(a) {
		return
	}
	if a.Agent == "" {
		r.addFault("config.agent", "is required")
	} else if !agent.ValidName(a.Agent) {
		r.addFault("config.agent", "%q is no name of an agent", clip.Bytes(a.Agent, maxQuoted))
	}
	if strings.TrimSpace(a.Message) == "" {
		r.addFault("config.message", "is required")
	}
	r.checkTemplate("config.message", a.Message)
	r.checkTemplate("config.session", a.Session)
	if !isNull(a.OutputSchema) && !bytes.HasPrefix(a.OutputSchema, []byte("{")) {
		r.addFault("config.output_schema", "want an object")
	}
	r.checkAttempts(&a.attempts, maxTurnSec)
}
