// Package research is the toolkit "research": tools that search the literature, and a tool that returns the bibliography of their results.
//
//	search_pubmed            NCBI's E-utilities: esearch, then efetch
//	search_clinical_trials   the API of ClinicalTrials.gov, version 2
//	search_preprints         Europe PMC: preprints and papers
//	search_openalex          OpenAlex
//	search_web               DuckDuckGo, the operator's SearXNG instance, or Brave Search
//	search_research          all sources at once; some of them may fail
//	get_bibliography         the references of the conversation as Markdown, BibTeX or CSL-JSON
//
// The arguments of a call become a [search] of a [source], which finds works. Each work is stored as a reference of the conversation
// ([tool.References]), and has the number of the reference in the answer. A work has keys, its DOI first. The store recognises by them that
// two sources have found the same work.
//
// All requests go through [exchange.get], which sends them within the rate of the host (for all calls of the process together), adds the
// credentials of the binding's auth profiles, and repeats a request once if the host asks to wait a little. Services are not malicious, but
// their answers vary: answers are bounded, and fields may be missing or have another type. An answer that cannot be read is a failure, never
// "no results".
//
// A service that refuses a search or is not available is a failed result, so that the model can use another one. If the caller's time ends or
// the references cannot be stored, the call returns an error, which the runtime may retry.
package research
