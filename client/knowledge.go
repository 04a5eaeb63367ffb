package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

const knowledgePath = "knowledge"

// File is a file for a knowledge collection. Its tenant is the client's, whatever it says.
type File = gateway.KnowledgeAdd

// AddKnowledge uploads a file. Body is read once, as it is sent.
func (c *Client) AddKnowledge(ctx context.Context, k File) ([]agent.KnowledgeDocument, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.LongTimeout)
	defer cancel()
	r := request{
		method: http.MethodPost, path: []string{knowledgePath, k.Collection, "documents"}, body: k.Body,
		query:  params("id", k.ID, "title", k.Title, "source", k.Source, "metadata", string(k.Metadata)),
		header: http.Header{"Content-Type": {cmp.Or(k.MIMEType, "application/octet-stream")}},
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	var out struct {
		Documents []agent.KnowledgeDocument `json:"documents"`
	}
	err = decodeAnswer(ctx, resp, r, &out)
	return out.Documents, err
}

// Knowledge returns a page of a collection's documents, by id.
func (c *Client) Knowledge(ctx context.Context, collection string, p agent.Page) (agent.KnowledgePage, error) {
	documents, next, err := page[agent.KnowledgeDocument](ctx, c, "documents", pageParams(p), knowledgePath, collection, "documents")
	return agent.KnowledgePage{Documents: documents, Next: next}, err
}

// DeleteKnowledge forgets a document; [agent.CodeNotFound] when there is none.
func (c *Client) DeleteKnowledge(ctx context.Context, collection, id string) error {
	return c.exchange(ctx, request{method: http.MethodDelete, path: []string{knowledgePath, collection, "documents", id}}, nil)
}

// SearchKnowledge finds passages as an agent of the collection would; topK 0 is the server's.
func (c *Client) SearchKnowledge(ctx context.Context, collection, text string, topK int) ([]agent.Passage, error) {
	query := url.Values{"q": {text}, "top_k": {strconv.Itoa(topK)}}
	if topK == 0 {
		query.Del("top_k")
	}
	passages, _, err := page[agent.Passage](ctx, c, "passages", query, knowledgePath, collection, "search")
	return passages, err
}
