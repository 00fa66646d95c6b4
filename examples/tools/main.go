// Command tools is an HTTP tool that can be asked twice: it charges a customer and
// keeps, in one transaction, the charge and the idempotency key it was made for. The
// key is the table's unique key, so the second request for it, whenever it comes and
// however many come at once, is given the first one's answer.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"go.etcd.io/bbolt"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8099", "where to listen")
	file := flag.String("db", "charges.db", "the database")
	flag.Parse()
	db, err := bbolt.Open(*file, 0o600, &bbolt.Options{Timeout: 2 * time.Second})
	if err != nil {
		log.Fatalf("open %s: %v (is another copy of this tool running?)", *file, err)
	}
	defer db.Close()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: &charger{db: db, now: time.Now}, ReadHeaderTimeout: 5 * time.Second}
	log.Printf("POST http://%s/charge", l.Addr())
	log.Fatal(server.Serve(l))
}
