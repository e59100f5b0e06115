"""An order in three steps, one for each guarantee: python -m ninelives_scenarios.order_example [DSN]"""

import asyncio

from ninelives import AtMostOnce, Call, Flow, Node, Transactional, capability, instance_id_for, migrate
from ninelives_scenarios.embedded import database


@capability("stock.reserve", version="1.0.0")  # idempotent, the default: after a kill it may repeat, with the same key
async def reserve(call: Call, order: dict[str, object]) -> object:
    return {"shelf": 7, "sku": order["sku"]}  # a call to the warehouse would send call.idempotency_key


@capability("card.charge", version="1.0.0", effect=AtMostOnce)  # never twice: a kill in here leaves a doubt, not a bill
async def charge(call: Call, order: dict[str, object]) -> object:
    return {"cents": order["cents"]}


@capability("order.record", version="1.0.0", effect=Transactional)  # commits together with the step, or not at all
async def record(call: Call, row: dict[str, object]) -> object:
    await call.connection.execute("create table if not exists shop_order (id uuid primary key, cents int)")
    await call.connection.execute("insert into shop_order values ($1, $2)", [call.instance_id, row["cents"]])
    return row


reserved = Flow("order.place", version="1.0.0").step("reserve", reserve).step("charge", charge)
place_order = reserved.step("record", record, input=lambda state: {**state["reserve"], **state["charge"]})


async def main(dsn: str) -> None:
    async with Node(dsn, flows=[place_order]) as node:
        handle = await node.start(place_order, {"sku": "cat", "cents": 990}, instance_id=instance_id_for("order-1"))
        print(handle.instance_id, await handle.result(timeout_s=30))


if __name__ == "__main__":
    with database() as dsn:
        migrate(dsn)
        asyncio.run(main(dsn))
