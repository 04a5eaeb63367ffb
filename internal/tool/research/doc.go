// Package research is the toolkit "research": tools that search the literature, and the bibliography of what they found.
//
//	search_pubmed            NCBI's E-utilities: esearch, then efetch
//	search_clinical_trials   the API of ClinicalTrials.gov, version 2
//	search_preprints         Europe PMC: preprints and papers
//	search_openalex          OpenAlex
//	search_web               DuckDuckGo, a SearXNG of the operator's own, or Brave Search
//	search_research          all of them at once; one that fails does not matter
//	get_bibliography         what the conversation has found: Markdown, BibTeX or CSL-JSON
//
// A source is a [search]: arguments, read strictly, that can be run. What it finds are works; each becomes a reference of the conversation
// ([tool.References]) before it is answered, and the number in the answer is the reference's. A work has keys, its DOI first: the
// store knows by them that two sources have the same work.
//
// All requests go through one function, [exchange.get]: within the rate of the host, which all calls of the process share, with the
// credentials of the binding's auth profiles, and a second time when the host asks to wait a little. Services are of good will but
// send whatever they like: answers are bounded, fields may lack or have another type, and an answer that cannot be read is a failure that
// says so, never "no results".
//
// A service that refuses or cannot be reached is a failed result: the model may use another. The end of the caller's time, and a
// bibliography that cannot be kept, is an error, for the runtime to try again.
package research
