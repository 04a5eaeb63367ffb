// Package delegate is the toolkit "delegate" with the one tool delegate_to_agent: work for another agent.
//
// For agent_type langchain_agent the work is a turn of another agent of the catalog, one that the asking agent lists among its delegates.
// The runtime runs it as a child of the asking turn ([agent.Delegator]) and its result is the call's; the tool only reads who is asked,
// and what:
//
//   - config.agent names the delegate; it may be left out when there is one.
//   - inputs.message, else inputs.task, else inputs.input is the message, when it is a string. What else is in inputs follows it as JSON;
//     without any of the three the message is inputs as JSON.
//   - config.limits bound the child turn: they can only lower what the asking turn has left.
//
// The other agent types want a cluster to run containers on. None is configured, and the tool says so.
package delegate
