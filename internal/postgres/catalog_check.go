package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a commit.
const (
	maxCommitDocuments = 20_000   // puts and deletes; as many artifacts
	maxCommitBytes     = 64 << 20 // of all bodies
	maxDocumentBytes   = 1 << 20
	maxNameBytes       = 512     // each part of a key: four of them fit into an entry of an index
	maxTextBytes       = 2 << 10 // who, whence and why, which the history repeats for each document
)

// checkCommit says what keeps a commit from being stored as it is.
func checkCommit(c *agent.CatalogCommit) error {
	switch documents := len(c.Put) + len(c.Delete); {
	case documents+len(c.Publish) == 0:
		return agent.Errorf(agent.CodeInvalid, "", "there is nothing to commit")
	case documents > maxCommitDocuments:
		return agent.Invalid("put", "%d documents are put or deleted at once; the most are %d", documents, maxCommitDocuments)
	case len(c.Publish) > maxCommitDocuments:
		return agent.Invalid("publish", "%d artifacts are published at once; the most are %d", len(c.Publish), maxCommitDocuments)
	}
	for _, text := range []struct{ field, value string }{{"by", c.By}, {"source", c.Source}, {"comment", c.Comment}} {
		if err := checkText(text.field, text.value, maxTextBytes); err != nil {
			return err
		}
	}
	if err := checkDocuments(c); err != nil {
		return err
	}
	return checkArtifacts(c.Publish)
}

func checkDocuments(c *agent.CatalogCommit) error {
	total := 0
	for i := range c.Put {
		if total += len(c.Put[i].Body); total > maxCommitBytes {
			return agent.Invalid("put", "more than %d bytes of documents at once", maxCommitBytes)
		}
	}
	seen := make(map[agent.DocumentKey]struct{}, len(c.Put)+len(c.Delete))
	for i := range c.Put {
		d := &c.Put[i]
		if err := checkOnce(seen, d.DocumentKey); err != nil {
			return within("put", i, err)
		}
		if err := checkBody(d.Body); err != nil {
			return within("put", i, err)
		}
	}
	for i := range c.Delete {
		if err := checkOnce(seen, c.Delete[i]); err != nil {
			return within("delete", i, err)
		}
	}
	return nil
}

func checkOnce(seen map[agent.DocumentKey]struct{}, k agent.DocumentKey) *agent.Error {
	for _, part := range []struct {
		field, value string
		required     bool
	}{{"kind", string(k.Kind), true}, {"tenant", k.Tenant, false}, {"name", k.Name, true}, {"version", k.Version, false}} {
		if err := checkText(part.field, part.value, maxNameBytes); err != nil {
			return err
		}
		if part.required && part.value == "" {
			return agent.Invalid(part.field, "is missing")
		}
	}
	if _, twice := seen[k]; twice {
		return agent.Invalid("name", "%s is given twice", k)
	}
	seen[k] = struct{}{}
	return nil
}

func checkBody(body json.RawMessage) *agent.Error {
	switch {
	case len(body) > maxDocumentBytes:
		return agent.Invalid("body", "is longer than %d bytes", maxDocumentBytes)
	case !utf8.Valid(body), !json.Valid(body):
		return agent.Invalid("body", "is not JSON")
	}
	return nil
}

func checkArtifacts(publish []agent.Artifact) error {
	type owner struct{ tenant, agent string }
	seen := make(map[owner]struct{}, len(publish))
	for i := range publish {
		a := &publish[i]
		for _, text := range []struct{ field, value string }{
			{"tenant", a.Tenant}, {"agent", a.Agent}, {"compiled_artifact_uri", a.URI}, {"compiled_artifact_hash", a.Hash}, {"inputs", a.Inputs},
		} {
			if err := checkText(text.field, text.value, maxNameBytes); err != nil {
				return within("publish", i, err)
			}
			if text.value == "" {
				return within("publish", i, agent.Invalid(text.field, "is missing"))
			}
		}
		if _, twice := seen[owner{a.Tenant, a.Agent}]; twice {
			return within("publish", i, agent.Invalid("agent", "%s/%s is given twice", a.Tenant, a.Agent))
		}
		seen[owner{a.Tenant, a.Agent}] = struct{}{}
	}
	return nil
}

// checkText refuses what a text column cannot hold, and more than a number of bytes.
func checkText(field, s string, most int) *agent.Error {
	switch {
	case len(s) > most:
		return agent.Invalid(field, "is longer than %d bytes", most)
	case strings.ContainsRune(s, 0):
		return agent.Invalid(field, "has a NUL character")
	case !utf8.ValidString(s):
		return agent.Invalid(field, "is not UTF-8")
	}
	return nil
}

// within puts the field of an error into an element of a list.
func within(list string, i int, err *agent.Error) *agent.Error {
	err.Field = fmt.Sprintf("%s[%d].%s", list, i, err.Field)
	return err
}
