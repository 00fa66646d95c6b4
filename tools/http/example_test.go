package http_test

import (
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"

	"tollgate/dispatcher"
	httptool "tollgate/tools/http"
)

func ExampleNew() {
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(nethttp.StatusTooManyRequests)
		io.WriteString(w, "one at a time")
	}))
	defer server.Close()
	e, err := httptool.New(httptool.Spec{URL: server.URL})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	v := e.Execute(context.Background(), dispatcher.Invocation{Key: "k1", Arguments: []byte(`{}`)})
	fmt.Println(v.Class, v.Phase, v.Code, v.RetryAfter)
	// Output: transient answered HTTP_429 7s
}
