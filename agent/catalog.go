package agent

import (
	"encoding/json"
	"time"
)

// SharedTenant is the tenant of documents that every tenant sees. A tenant's own document of the same name takes precedence. It is not a valid name
// of a tenant.
const SharedTenant = "*"

// Kind is the kind of a catalog document (docs/start/catalog.md, "Documents").
type Kind string

// The kinds.
const (
	KindNode      Kind = "NodeDefinition"
	KindAgent     Kind = "AgentInstance"
	KindBinding   Kind = "ToolBinding"
	KindModel     Kind = "ModelProfile"
	KindRoutes    Kind = "RouteTable"
	KindAuth      Kind = "AuthProfile"
	KindKnowledge Kind = "KnowledgeCollection"
)

// Kinds returns all kinds in the order of lists.
func Kinds() []Kind {
	return []Kind{KindNode, KindAgent, KindBinding, KindModel, KindRoutes, KindAuth, KindKnowledge}
}

// DocumentKey names a catalog document.
type DocumentKey struct {
	Kind    Kind   `json:"kind"`
	Tenant  string `json:"tenant,omitempty"`  // [SharedTenant] or a name; empty for a NodeDefinition
	Name    string `json:"name"`              // of a NodeDefinition: its node_id
	Version string `json:"version,omitempty"` // of a NodeDefinition
}

// String returns a readable name: "AgentInstance acme/analyst", "NodeDefinition agent@1".
func (k DocumentKey) String() string {
	s := string(k.Kind) + " "
	if k.Tenant != "" {
		s += k.Tenant + "/"
	}
	s += k.Name
	if k.Version != "" {
		s += "@" + k.Version
	}
	return s
}

// The sources of documents.
const (
	SourceBuiltin = "builtin" // shipped with the product, or derived from its toolkits
	SourceConfig  = "config"  // derived from the configuration
	SourceFolder  = "folder"
	SourceFollow  = "follow" // another installation, see catalog.follow
	SourceAPI     = "api"
)

// Document is a stored catalog document.
type Document struct {
	DocumentKey

	Body      json.RawMessage `json:"body"`       // the whole document as canonical JSON (RFC 8785)
	Revision  int64           `json:"revision"`   // of the catalog when the document last changed; 0 if it is not stored (builtin, config)
	Source    string          `json:"source"`     // builtin, config, folder, follow, api
	UpdatedAt time.Time       `json:"updated_at"` // zero if it is not stored
	UpdatedBy string          `json:"updated_by"`
	Deleted   bool            `json:"deleted,omitempty"` // only in lists of changes
}

// Artifact is a published plan: it is compiled and stored under its hash.
type Artifact struct {
	Tenant     string    `json:"tenant"`
	Agent      string    `json:"agent"`
	URI        string    `json:"compiled_artifact_uri"`  // cas://sha256:<hex>
	Hash       string    `json:"compiled_artifact_hash"` // sha256:<hex>
	CompiledAt time.Time `json:"compiled_at"`
	Inputs     string    `json:"inputs"`   // digest of everything that the plan was compiled from; the plan is stale if the current digest differs
	Revision   int64     `json:"revision"` // of the catalog when it was published
}

// CatalogState is the stored catalog, or its changes since a revision, including tombstones.
type CatalogState struct {
	Revision  int64 // the newest; 0 if nothing was ever stored
	Oldest    int64 // changes after this revision are complete; older tombstones have been removed
	Documents []Document
	Artifacts []Artifact
}

// CatalogCommit is an atomic change. It makes the revision after At.
type CatalogCommit struct {
	At      int64 // the revision that the change was checked against; [CodeConflict] if it is no longer the newest
	By      string
	Source  string
	Comment string
	Put     []Document // key and body
	Delete  []DocumentKey
	Publish []Artifact
}

// The values of Action of a [DocumentChange].
const (
	ActionCreated   = "created"
	ActionUpdated   = "updated"
	ActionUnchanged = "unchanged"
	ActionDeleted   = "deleted"
	ActionPublished = "published"
)

// DocumentChange is the change of one document by a commit or a dry run.
type DocumentChange struct {
	DocumentKey

	Action string          `json:"action"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// AuditEntry is a change with its revision, author, time and comment.
type AuditEntry struct {
	DocumentChange

	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	By       string    `json:"by"`
	Source   string    `json:"source"`
	Comment  string    `json:"comment"`
}

// ManifestFile is YAML or JSON text with one or more documents.
type ManifestFile struct {
	Name   string // for faults; may be empty
	Tenant string // of documents without a tenant; empty: [DefaultTenant]
	Data   []byte
}

// ApplyRequest changes the catalog, completely or not at all.
type ApplyRequest struct {
	Files        []ManifestFile
	Delete       []DocumentKey
	BaseRevision int64  // the revision that the edit started from; a document that changed since is a conflict; 0: not checked, unless FromEmpty
	FromEmpty    bool   // the edit started from revision 0; a document that was applied since is a conflict
	Prune        bool   // delete the documents of this source that are not in the files
	PruneTenant  string // prune only documents of this tenant; empty: of all
	DryRun       bool   // return the changes without making them
	Publish      bool   // publish the agents that changed
	By           string
	Source       string // [SourceAPI], [SourceFolder] or [SourceFollow]
	Comment      string
}

// ApplyResult has the changes of an [ApplyRequest].
type ApplyResult struct {
	Revision int64            `json:"revision"` // the new revision; the current one after a dry run or if nothing changed
	DryRun   bool             `json:"dry_run"`
	Changes  []DocumentChange `json:"changes"`
}

// NodeInfo describes a node definition to those who configure agents.
type NodeInfo struct {
	NodeID      string            `json:"node_id"`
	Version     string            `json:"version"`
	Type        NodeType          `json:"type"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels"`
	Properties  json.RawMessage   `json:"properties"` // JSON Schema of the parameters; null if there are none
	Tools       []ToolInfo        `json:"tools"`      // of a tool or toolkit that this process has
	Revision    int64             `json:"revision"`
	Source      string            `json:"source"`
}

// AgentInfo describes an agent to those who may call it.
type AgentInfo struct {
	Name         string            `json:"name"`
	Tenant       string            `json:"tenant"` // [SharedTenant] or the tenant's name
	InstanceID   string            `json:"instance_id"`
	Description  string            `json:"description"`
	Labels       map[string]string `json:"labels"`
	Default      bool              `json:"default"` // it answers requests that name no agent and match no rule
	NodeID       string            `json:"node_id"`
	NodeVersion  string            `json:"node_version"`
	PlanHash     string            `json:"plan_hash"`
	Models       []string          `json:"models"` // profiles that a request may name, the default first
	Tools        []ToolInfo        `json:"tools"`
	Middleware   []string          `json:"middleware"`
	Limits       Limits            `json:"limits"`
	RateLimits   RateLimits        `json:"rate_limits"`
	Capabilities []string          `json:"capabilities"` // sorted: approvals, delegation, direct, knowledge, streaming, structured_output, tools
	Artifact     *Artifact         `json:"artifact"`     // null if it is not published or the published plan is stale
	Revision     int64             `json:"revision"`     // the newest revision of the agent and its inputs
	Source       string            `json:"source"`
	Fault        string            `json:"fault,omitempty"` // why the agent cannot run now
}

// ToolInfo describes a tool that an agent is granted.
type ToolInfo struct {
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Toolkit        string          `json:"toolkit"` // the binding's name
	NodeID         string          `json:"node_id"`
	NodeVersion    string          `json:"node_version"`
	SourceNodeName string          `json:"source_node_name"`
	IsFromToolkit  bool            `json:"is_from_toolkit"`
	Parameters     json.RawMessage `json:"parameters"` // JSON Schema of the arguments
	Idempotent     bool            `json:"idempotent"`
	InherentlySafe bool            `json:"inherently_safe"`
	Approval       Approve         `json:"approval"`
}

// NodeQuery selects node definitions. Zero fields match all.
type NodeQuery struct {
	Type   NodeType
	NodeID string
	Labels map[string]string // all must be equal
	Page
}

// AgentQuery selects agents that a tenant sees. Zero fields match all.
type AgentQuery struct {
	Tenant string // empty: [DefaultTenant]; [SharedTenant]: the agents of every tenant
	NodeID string
	Tool   string // name of a granted tool
	Labels map[string]string
	Page
}

// DocumentQuery selects documents. Zero fields match all.
type DocumentQuery struct {
	Kind    Kind
	Tenant  string
	Name    string
	Version string
	Source  string
	Page
}

// HistoryQuery selects entries of the audit trail, newest first. Zero fields match all.
type HistoryQuery struct {
	Kind   Kind
	Tenant string
	Name   string
	Page
}

// Page selects a page of a list.
type Page struct {
	Size  int    // 0: 100; at most 1,000
	Token string // next_page_token of the previous page; empty: the first page
}

// NodePage is a page of nodes.
type NodePage struct {
	Nodes    []NodeInfo `json:"nodes"`
	Next     string     `json:"next_page_token"` // empty on the last page
	Revision int64      `json:"revision"`
}

// AgentPage is a page of agents.
type AgentPage struct {
	Agents   []AgentInfo `json:"agents"`
	Next     string      `json:"next_page_token"`
	Revision int64       `json:"revision"`
}

// DocumentPage is a page of documents.
type DocumentPage struct {
	Documents []Document `json:"documents"`
	Next      string     `json:"next_page_token"`
	Revision  int64      `json:"revision"`
}

// HistoryPage is a page of the audit trail.
type HistoryPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next_page_token"`
}

// WatchQuery selects a stream of catalog changes.
type WatchQuery struct {
	Tenant string // as in [AgentQuery]
	After  int64  // resume after this revision; 0: begin with a snapshot
}

// CatalogEvent is a message of the stream: a snapshot, or the changes since the last event.
type CatalogEvent struct {
	Revision int64          `json:"revision"` // After of a query that resumes here
	Snapshot bool           `json:"snapshot"` // the event has all nodes and agents; others no longer exist
	Nodes    []NodeInfo     `json:"nodes"`
	Agents   []AgentInfo    `json:"agents"`
	Removed  []RemovedEntry `json:"removed"`
}

// RemovedEntry names a removed node version or agent.
type RemovedEntry struct {
	Kind    Kind   `json:"kind"` // [KindNode] or [KindAgent]
	Tenant  string `json:"tenant,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// CatalogStatus is the revision that a process serves, with the state of its sources.
type CatalogStatus struct {
	Revision int64          `json:"revision"`
	LoadedAt time.Time      `json:"loaded_at"`
	Counts   map[Kind]int   `json:"counts"`
	Sources  []SourceStatus `json:"sources"`
}

// SourceStatus is the state of a source of documents: the store, the folder or the followed installation.
type SourceStatus struct {
	Name   string    `json:"name"` // store, folder, follow
	OK     bool      `json:"ok"`
	Detail string    `json:"detail"`
	Faults []Fault   `json:"faults"` // why the newest state of the source is not served
	At     time.Time `json:"at"`     // when the source was last read
}
