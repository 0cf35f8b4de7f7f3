curl 'https://shop.example.com/graphql' \
  -H 'accept: */*' \
  -H 'accept-language: en-GB,en;q=0.9,de;q=0.8' \
  -H 'cache-control: no-cache' \
  -H 'content-type: application/json' \
  -b '_ga=GA1.2.1117; session=eyJpZCI6IjQ3MTEifQ==; theme=dark' \
  -H 'origin: https://shop.example.com' \
  -H 'pragma: no-cache' \
  -H 'priority: u=1, i' \
  -H 'referer: https://shop.example.com/basket' \
  -H 'sec-ch-ua: "Chromium";v="128", "Not;A=Brand";v="24"' \
  -H 'sec-ch-ua-mobile: ?0' \
  -H 'sec-fetch-dest: empty' \
  -H 'sec-fetch-mode: cors' \
  -H 'user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36' \
  --compressed \
  --data-raw $'{"operationName":"Basket","variables":{"id":"b-17"},"query":"query Basket($id: ID\u0021) {\\n  basket(id: $id) { items { sku count } }\\n}"}' ;
curl 'https://shop.example.com/assets/app.3f2a.js' -H 'referer: https://shop.example.com/basket' --compressed ;
curl 'https://cdn.example.net/fonts/inter.woff2' -H 'origin: https://shop.example.com' ;
curl 'https://shop.example.com/api/upload' -X POST -F 'note=a cat' -F 'photo=@part-cat.txt;type=image/png' --http2 -k
