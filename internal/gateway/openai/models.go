package openai

import (
	"net/http"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// Bounds of the list of models.
const (
	maxAgentPages = 20
	agentPageSize = 500
)

// model is an agent, alone or with one of its other model profiles.
type model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"` // when the agent was published; 0 if it was not
	OwnedBy     string `json:"owned_by"`
	Description string `json:"description,omitempty"`
}

// getModels is GET /v1/models: the agents that the caller may run.
func (d *Door) getModels(_ http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	models, err := runnableModels(r, v)
	if err != nil {
		return err
	}
	v.WriteJSON(http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", models})
	return nil
}

// getModel is GET /v1/models/{model}.
func (d *Door) getModel(_ http.ResponseWriter, r *http.Request, v *gateway.Call) error {
	name := r.PathValue("model")
	models, err := runnableModels(r, v)
	if err != nil {
		return err
	}
	for i := range models {
		if models[i].ID == name {
			v.WriteJSON(http.StatusOK, models[i])
			return nil
		}
	}
	return noModel(name)
}

// runnableModels lists the models that the caller may name in a request.
func runnableModels(r *http.Request, v *gateway.Call) ([]model, error) {
	models := []model{}
	caller := v.Principal() // [gateway.Call.Allow] would record each agent that the caller may not run as denied
	q := agent.AgentQuery{Page: agent.Page{Size: agentPageSize}}
	for range maxAgentPages {
		page, err := v.Agents(r.Context(), q)
		if err != nil {
			return nil, err
		}
		for i := range page.Agents {
			a := &page.Agents[i]
			if a.Fault == "" && caller.May(agent.ActionTurnsRun, a.Name) {
				models = append(models, modelsOf(a)...)
			}
		}
		if q.Token = page.Next; q.Token == "" {
			break
		}
	}
	return models, nil
}

// modelsOf returns the models of an agent: the agent itself, which uses its first profile, and the agent with each further profile.
func modelsOf(a *agent.AgentInfo) []model {
	m := model{ID: a.Name, Object: "model", OwnedBy: a.Tenant, Description: a.Description}
	if a.Tenant == agent.SharedTenant {
		m.OwnedBy = "turnstone"
	}
	if a.Artifact != nil {
		m.Created = a.Artifact.CompiledAt.Unix()
	}
	models := []model{m}
	for _, profile := range a.Models[min(1, len(a.Models)):] {
		m.ID = a.Name + ":" + profile
		models = append(models, m)
	}
	return models
}
