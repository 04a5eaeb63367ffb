package apidoc_test

import "strings"

func userErasures() []exchange {
	return []exchange{
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ticket 7"}`, status: 202, contains: `"status":"requested"`},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"bob","tenant":"zoo","reason":"ticket 8","dry_run":true}`, status: 202, contains: `"tenant":"zoo"`},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ann wants it"}`, status: 400, contains: `"field":"reason"`},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"","reason":"ticket 7"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ticket 7","force":true}`, status: 400, refused: true},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"ann","reason":"ticket 7"}`, as: reader, status: 403, contains: "erasures.write"},
		{method: "POST", path: "/v1/erasures", body: `{"user_id":"` + strings.Repeat("x", 65<<10) + `","reason":"r"}`, status: 413},
		{method: "GET", path: "/v1/erasures?page_size=1", status: 200, contains: "next_page_token"},
		{method: "GET", path: "/v1/erasures", as: reader, status: 403, contains: "erasures.read"},
		{method: "GET", path: "/v1/erasures?page_size=1001", status: 400, refused: true},
		{method: "GET", path: "/v1/erasures/e1", status: 200, contains: `"status":"requested"`},
		{method: "GET", path: "/v1/erasures/e1", status: 200, contains: `"unnamed":1`},
		{method: "GET", path: "/v1/erasures/e2", status: 200, contains: `"status":"requested"`},
		{method: "GET", path: "/v1/erasures/e2", status: 200, contains: `"status":"failed"`},
		{method: "GET", path: "/v1/erasures/unknown", status: 404},
	}
}

func sweeps() []exchange {
	return []exchange{
		{method: "GET", path: "/v1/retention", status: 200, contains: `"next_page_token":"acme"`},
		{method: "GET", path: "/v1/retention?page_size=1&page_token=acme", status: 200, contains: `"own":true`},
		{method: "GET", path: "/v1/retention?tenant=zoo", status: 200, contains: `"tenant":"zoo"`},
		{method: "GET", path: "/v1/retention", header: []string{"Turnstone-Tenant", "zoo"}, status: 200, contains: `"tenant":"zoo"`},
		{method: "GET", path: "/v1/retention?page_size=101", status: 400, refused: true},
		{method: "GET", path: "/v1/retention?page_token=" + strings.Repeat("x", 129), status: 400},
		{method: "GET", path: "/v1/retention", as: reader, status: 403, contains: "retention.read"},
		{method: "POST", path: "/v1/retention/run", status: 202, contains: `"running":true`},
		{method: "POST", path: "/v1/retention/run", body: `{"tenant":"zoo"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/retention/run", as: reader, status: 403, contains: "retention.write"},
		{method: "POST", path: "/v1/retention/pause", body: `{"reason":"a backup"}`, status: 200, contains: `"note":"a backup"`},
		{method: "POST", path: "/v1/retention/pause", body: `{"note":"a backup"}`, status: 400, refused: true},
		{method: "POST", path: "/v1/retention/resume", status: 200, contains: "resumed by ops"},
		{method: "POST", path: "/v1/retention/resume", body: `{"reason":"` + strings.Repeat("x", 65<<10) + `"}`, status: 413},
	}
}
