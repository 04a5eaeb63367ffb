package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// WatchCatalog yields the catalog and then its changes until ctx ends, or the consumer stops. It resumes as [Client.Follow] does;
// a server that cannot go on from the last revision seen sends a snapshot. An empty tenant is the client's.
func (c *Client) WatchCatalog(ctx context.Context, q agent.WatchQuery) iter.Seq2[agent.CatalogEvent, error] {
	return func(yield func(agent.CatalogEvent, error) bool) {
		f := &follower{client: c, what: "the catalog", path: []string{catalogPath, "stream"}, query: params(tenantParam, q.Tenant), last: q.After}
		f.take = func(data string) error { return f.takeCatalog(data, yield) }
		if err := f.run(ctx); err != nil {
			yield(agent.CatalogEvent{}, err)
		}
	}
}

func (f *follower) takeCatalog(data string, yield func(agent.CatalogEvent, error) bool) error {
	var e struct {
		agent.CatalogEvent

		Error *agent.Failure `json:"error"`
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return f.undecodable(err)
	}
	switch {
	case e.Error != nil:
		return streamError(e.Error)
	case e.Revision <= f.last && !e.Snapshot: // a snapshot counts whatever its revision: a server may have lost its store
		return nil
	}
	f.last, f.progress = e.Revision, time.Now()
	if !yield(e.CatalogEvent, nil) {
		return errEnd
	}
	return nil
}
