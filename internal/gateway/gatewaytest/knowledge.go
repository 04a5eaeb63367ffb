package gatewaytest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// knowledgeDocument is a stored file, which is a document of one chunk.
type knowledgeDocument struct {
	agent.KnowledgeDocument

	text string
}

// collection returns the key of a tenant's collection in rt.knowledge.
func (rt *Runtime) collection(tenant, name string) (string, error) {
	if !slices.Contains(rt.Collections, name) {
		return "", agent.FieldErrorf(agent.CodeNotFound, "collection", "there is no knowledge collection %q", name)
	}
	return tenant + "/" + name, nil
}

// AddKnowledge implements [gateway.Knowledge]. It refuses files of type application/zip without reading them.
func (rt *Runtime) AddKnowledge(_ context.Context, k gateway.KnowledgeAdd) ([]agent.KnowledgeDocument, error) {
	key, err := rt.collection(k.Tenant, k.Collection)
	if err != nil {
		return nil, err
	}
	if k.MIMEType == "application/zip" {
		return nil, agent.Invalid("", "a document of type %s cannot be read", k.MIMEType)
	}
	text, err := io.ReadAll(k.Body)
	if err != nil {
		return nil, err
	}
	d := knowledgeDocument{agent.KnowledgeDocument{
		Tenant: k.Tenant, Collection: k.Collection, ID: cmp.Or(k.ID, k.Source), Title: k.Title, Source: k.Source, MIMEType: k.MIMEType,
		Hash: fmt.Sprintf("sha256:%x", sha256.Sum256(text)), Bytes: int64(len(text)), Chunks: 1, Metadata: k.Metadata, UpdatedAt: Epoch(),
	}, string(text)}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	at, found := slices.BinarySearchFunc(rt.knowledge[key], d.ID, func(k knowledgeDocument, id string) int { return cmp.Compare(k.ID, id) })
	if found {
		rt.knowledge[key][at] = d
	} else {
		rt.knowledge[key] = slices.Insert(rt.knowledge[key], at, d)
	}
	return []agent.KnowledgeDocument{d.KnowledgeDocument}, nil
}

// Knowledge implements [gateway.Knowledge].
func (rt *Runtime) Knowledge(_ context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error) {
	key, err := rt.collection(tenant, collection)
	if err != nil {
		return agent.KnowledgePage{}, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var page agent.KnowledgePage
	for _, k := range rt.knowledge[key] {
		if k.ID <= after {
			continue
		}
		if len(page.Documents) == limit {
			page.Next = page.Documents[limit-1].ID
			break
		}
		page.Documents = append(page.Documents, k.KnowledgeDocument)
	}
	return page, nil
}

// DeleteKnowledge implements [gateway.Knowledge].
func (rt *Runtime) DeleteKnowledge(_ context.Context, tenant, collection, id string) error {
	key, err := rt.collection(tenant, collection)
	if err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	before := len(rt.knowledge[key])
	rt.knowledge[key] = slices.DeleteFunc(rt.knowledge[key], func(k knowledgeDocument) bool { return k.ID == id })
	if len(rt.knowledge[key]) == before {
		return agent.Errorf(agent.CodeNotFound, "", "collection %s has no document %q", collection, id)
	}
	return nil
}

// SearchKnowledge implements [gateway.Knowledge]. It finds the documents that contain the text, one passage each; topK 0 means 4.
func (rt *Runtime) SearchKnowledge(_ context.Context, tenant, collection, text string, topK int) ([]agent.Passage, error) {
	key, err := rt.collection(tenant, collection)
	if err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var passages []agent.Passage
	for _, k := range rt.knowledge[key] {
		if len(passages) < cmp.Or(topK, 4) && strings.Contains(k.text, text) {
			passages = append(passages, agent.Passage{
				ID: k.ID + "#0", Collection: collection, DocumentID: k.ID, Title: k.Title, Source: k.Source, Text: k.text, Score: 0.5,
			})
		}
	}
	return passages, nil
}

// Doctor implements [gateway.Doctor].
func (rt *Runtime) Doctor(ctx context.Context, _, agentName, profile string, report func(gateway.DoctorCheck)) error {
	if rt.Examine == nil {
		return nil
	}
	return rt.Examine(ctx, agentName, profile, report)
}
