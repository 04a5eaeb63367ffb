package catalog

import (
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// addAskPrompts adds the prompts of an ask agent: which branch a message belongs to, what is searched for, and how each branch answers. A
// prompt that the parameters leave empty counts as none. With one branch nothing is classified.
func (c *compiler) addAskPrompts(n *agent.NodeDefinition) {
	if len(c.inst.Knowledge) == 0 {
		c.addFault("knowledge", "is empty: agents of node %s@%s answer from knowledge collections", n.NodeID, n.Version)
	}
	before := len(c.out.faults)
	c.plan.System = c.askPrompt("retrieval", n.Ask.Retrieval)
	if c.plan.System == "" && len(c.out.faults) == before {
		c.addFault("parameters", "leave the retrieval prompt of node %s@%s empty: every answer may need it", n.NodeID, n.Version)
	}
	step := agent.PlanStep{
		Kind: agent.PrepareClassify, Prompt: c.askPrompt("classify", n.Ask.Classify),
		Branches: []agent.PlanBranch{{Name: agent.BranchRetrieval, System: c.plan.System, Retrieve: true}},
	}
	if system := c.askPrompt("code", n.Ask.Code); system != "" {
		step.Branches = append(step.Branches, agent.PlanBranch{Name: agent.BranchCode, System: system, Retrieve: true})
	}
	if system := c.askPrompt("conversational", n.Ask.Conversational); system != "" {
		step.Branches = append(step.Branches, agent.PlanBranch{Name: agent.BranchConversational, System: system})
	}
	if step.Prompt != "" && len(step.Branches) > 1 {
		c.plan.Prepare = append(c.plan.Prepare, step)
	}
	if prompt := c.askPrompt("reformulate", n.Ask.Reformulate); prompt != "" {
		c.plan.Prepare = append(c.plan.Prepare, agent.PlanStep{Kind: agent.PrepareReformulate, Prompt: prompt})
	}
}

// askPrompt returns a prompt with its parameters, empty if there is nothing in it.
func (c *compiler) askPrompt(name, prompt string) string {
	if prompt == "" {
		return ""
	}
	text, err := c.given.fillPrompt(prompt)
	if err != nil {
		c.addFault("parameters", "ask.%s: %s", name, err)
		return ""
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// defaultTopK is how many passages a search returns if the collection does not set it.
const defaultTopK = 4

// addCollections adds a search for each collection.
func (c *compiler) addCollections() {
	for i := range c.in.knowledge {
		ref := &c.in.knowledge[i]
		path := fmt.Sprintf("knowledge[%d]", i)
		if ref.entry == nil {
			c.addFault(path, "there is no knowledge collection %q", ref.name)
			continue
		}
		k, _ := ref.entry.parsed.Value.(*agent.KnowledgeCollection)
		step := agent.PlanStep{
			Kind: agent.PrepareRetrieve, Collection: k.Name, Tenant: ref.entry.doc.Tenant, TopK: k.TopK, MinScore: k.MinScore,
			Embedding: c.embeddingModel(ref, path),
		}
		if step.TopK == 0 {
			step.TopK = defaultTopK
		}
		c.plan.Prepare = append(c.plan.Prepare, step)
	}
}

// embeddingModel returns the model of a collection's vectors, nil if it has none.
func (c *compiler) embeddingModel(ref *reference, path string) *agent.PlanModel {
	switch {
	case ref.model == nil:
		return nil
	case ref.model.entry == nil:
		c.addFault(path, "knowledge collection %q embeds with model profile %q, which does not exist", ref.name, ref.model.name)
		return nil
	}
	m, ok := c.planModel(ref.model, path)
	if !ok {
		return nil
	}
	return &m
}
