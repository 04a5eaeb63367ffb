package gatewaytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
)

// documentHead has the members of a document that the fake reads.
type documentHead struct {
	Kind        agent.Kind        `json:"kind"`
	Tenant      string            `json:"tenant"`
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Type        agent.NodeType    `json:"type"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels"`
	NodeID      string            `json:"node_id"`
	NodeVersion string            `json:"node_version"`
	Properties  json.RawMessage   `json:"properties"`
	Models      []string          `json:"models"`
}

// Apply implements [gateway.Documents].
func (c *Catalog) Apply(_ context.Context, r agent.ApplyRequest) (agent.ApplyResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied = append(c.applied, r)
	if c.Refuse != nil {
		if err := c.Refuse(r); err != nil {
			return agent.ApplyResult{}, err
		}
	}
	changes, event, err := c.planChanges(&r)
	if err != nil {
		return agent.ApplyResult{}, err
	}
	effective := slices.DeleteFunc(slices.Clone(changes), func(d agent.DocumentChange) bool { return d.Action == agent.ActionUnchanged })
	if !r.DryRun && len(effective) > 0 {
		c.commit(event)
		c.store(effective, &r)
	}
	return agent.ApplyResult{Revision: c.revision(), DryRun: r.DryRun, Changes: changes}, nil
}

// planChanges returns the changes of documents, and of nodes and agents, that a request asks for. c.mu is locked.
func (c *Catalog) planChanges(r *agent.ApplyRequest) (changes []agent.DocumentChange, event agent.CatalogEvent, err error) {
	documents, heads, err := parse(r.Files)
	if err != nil {
		return nil, event, err
	}
	for i := range documents {
		d := &documents[i]
		change := agent.DocumentChange{DocumentKey: d.DocumentKey, Action: agent.ActionCreated, After: d.Body}
		if existing := c.find(d.DocumentKey); existing != nil {
			if err := checkBase(existing, r); err != nil {
				return nil, event, err
			}
			change.Action, change.Before = agent.ActionUpdated, existing.Body
			if bytes.Equal(existing.Body, d.Body) {
				change.Action = agent.ActionUnchanged
			}
		}
		changes = append(changes, change)
		if change.Action != agent.ActionUnchanged {
			c.addToEvent(&event, &heads[i], r.Publish)
		}
	}
	for _, key := range append(slices.Clone(r.Delete), c.prunedKeys(r, documents)...) {
		existing := c.find(key)
		if existing == nil {
			return nil, event, agent.Errorf(agent.CodeNotFound, "", "there is no %s", key)
		}
		if err := checkBase(existing, r); err != nil {
			return nil, event, err
		}
		changes = append(changes, agent.DocumentChange{DocumentKey: key, Action: agent.ActionDeleted, Before: existing.Body})
		event.Removed = append(event.Removed, agent.RemovedEntry(key))
	}
	return changes, event, nil
}

// prunedKeys returns the keys of the source's documents that a request with Prune does not hold.
func (c *Catalog) prunedKeys(r *agent.ApplyRequest, documents []agent.Document) []agent.DocumentKey {
	var keys []agent.DocumentKey
	for i := range c.DocumentList {
		d := &c.DocumentList[i]
		isSame := func(other agent.Document) bool { return other.DocumentKey == d.DocumentKey }
		if r.Prune && d.Source == r.Source && !slices.ContainsFunc(documents, isSame) {
			keys = append(keys, d.DocumentKey)
		}
	}
	return keys
}

// CompileDraft implements [gateway.Documents].
func (c *Catalog) CompileDraft(_ context.Context, _, text string, allow func(agent.DocumentKey) error) (agent.Draft, error) {
	files := []agent.ManifestFile{{Name: "draft", Data: []byte(text)}}
	documents, _, err := parse(files)
	if err == nil && c.Refuse != nil {
		err = c.Refuse(agent.ApplyRequest{Files: files, DryRun: true})
	}
	if err == nil && len(documents) != 1 {
		err = agent.Invalid("draft", "want one AgentInstance")
	}
	if err == nil {
		err = allow(documents[0].DocumentKey)
	}
	if err != nil {
		return agent.Draft{}, err
	}
	return agent.Draft{Text: text, Agent: documents[0].Name, PlanHash: "sha256:draft"}, nil
}

// checkBase returns an error if a document has changed after the base revision of a request.
func checkBase(d *agent.Document, r *agent.ApplyRequest) error {
	if (r.BaseRevision > 0 || r.FromEmpty) && d.Revision > r.BaseRevision {
		return agent.Errorf(agent.CodeConflict, "", "%s changed at revision %d", d.DocumentKey, d.Revision)
	}
	return nil
}

func (c *Catalog) find(key agent.DocumentKey) *agent.Document {
	for i := range c.DocumentList {
		if c.DocumentList[i].DocumentKey == key {
			return &c.DocumentList[i]
		}
	}
	return nil
}

// store changes the documents and the history. c.mu is locked.
func (c *Catalog) store(changes []agent.DocumentChange, r *agent.ApplyRequest) {
	var entries []agent.AuditEntry
	for _, change := range changes {
		hasKey := func(d *agent.Document) bool { return d.DocumentKey == change.DocumentKey }
		if change.Action == agent.ActionDeleted {
			c.DocumentList = filter(c.DocumentList, func(d *agent.Document) bool { return !hasKey(d) })
		} else {
			c.DocumentList = replaceOrAppend(c.DocumentList, agent.Document{
				DocumentKey: change.DocumentKey, Body: change.After, Revision: c.revision(), Source: r.Source, UpdatedAt: Epoch(), UpdatedBy: r.By,
			}, hasKey)
		}
		entries = append(entries, agent.AuditEntry{
			DocumentChange: change, Revision: c.revision(), At: Epoch(), By: r.By, Source: r.Source, Comment: r.Comment,
		})
	}
	c.Entries = append(entries, c.Entries...)
}

// addToEvent adds the node or agent of a document to an event.
func (c *Catalog) addToEvent(e *agent.CatalogEvent, h *documentHead, publish bool) {
	next := c.revision() + 1
	switch h.Kind {
	case agent.KindNode:
		e.Nodes = append(e.Nodes, agent.NodeInfo{
			NodeID: h.NodeID, Version: h.Version, Type: h.Type, Description: h.Description, Labels: h.Labels, Properties: h.Properties,
			Revision: next, Source: agent.SourceAPI,
		})
	case agent.KindAgent:
		a := agent.AgentInfo{
			Name: h.Name, Tenant: h.Tenant, InstanceID: h.Name + "@1", Description: h.Description, Labels: h.Labels, NodeID: h.NodeID,
			NodeVersion: h.NodeVersion, PlanHash: fmt.Sprintf("sha256:%064x", next), Models: h.Models, Revision: next, Source: agent.SourceAPI,
		}
		if publish {
			c.publish(&a)
		}
		e.Agents = append(e.Agents, a)
	default:
	}
}

// parse reads the documents of YAML streams and JSON, in which a document may be an array of documents.
func parse(files []agent.ManifestFile) ([]agent.Document, []documentHead, error) {
	var documents []agent.Document
	var heads []documentHead
	add := func(value any) error {
		body, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var h documentHead
		if err := json.Unmarshal(body, &h); err != nil {
			return err
		}
		key := agent.DocumentKey{Kind: h.Kind, Name: h.NodeID, Version: h.Version}
		if h.Kind != agent.KindNode {
			h.Tenant = cmp.Or(h.Tenant, agent.DefaultTenant)
			key = agent.DocumentKey{Kind: h.Kind, Tenant: h.Tenant, Name: h.Name}
		}
		documents, heads = append(documents, agent.Document{DocumentKey: key, Body: body}), append(heads, h)
		return nil
	}
	for _, f := range files {
		d := yaml.NewDecoder(bytes.NewReader(f.Data))
		for {
			var value any
			err := d.Decode(&value)
			if errors.Is(err, io.EOF) {
				break
			}
			list, ok := value.([]any)
			if !ok && value != nil {
				list = []any{value}
			}
			for _, v := range list {
				err = cmp.Or(err, add(v))
			}
			if err != nil {
				return nil, nil, agent.Faults{{File: f.Name, Line: 1, Message: err.Error()}}.Err()
			}
		}
	}
	return documents, heads, nil
}
